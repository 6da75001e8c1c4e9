"""The observer of ``gnomon-opt``: prints, verifies and times passes, and keeps a reproducer."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gnomon.dialects.mlir import ir
from gnomon.passes.pipeline import Pass

__all__ = ["PassObserver", "add_options"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the observer."""
    for when in ("before", "after"):
        parser.add_argument(
            f"--print-ir-{when}-all", action="store_true", help=f"print {when} each pass"
        )
        parser.add_argument(
            f"--print-ir-{when}",
            default="",
            help=f"print {when} these passes, separated by commas",
        )
    parser.add_argument("--timing", action="store_true", help="print the time of each pass")
    parser.add_argument(
        "--verify-each",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify the module after each pass (default)",
    )
    parser.add_argument(
        "--crash-reproducer",
        metavar="FILE",
        help="if a pass fails or crashes the process, leave its input in FILE, with the command "
        "that runs the pass again",
    )


class PassObserver:
    """Observes the passes on a module; it is called after each pass.

    Args:
      options: the options of `add_options`.
      module: the module before the first pass.
      commands: for each pass, the options that run it alone; or one command that runs all passes,
        if the pipeline chooses them while it runs.
      verify: raises if a module does not verify; its second argument says when.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        module: ir.Module,
        commands: Sequence[str],
        verify: Callable[[ir.Module, str], None],
    ) -> None:
        self._options = options
        self._commands = commands
        self._verify = verify
        self._before = set(filter(None, options.print_ir_before.split(",")))
        self._after = set(filter(None, options.print_ir_after.split(",")))
        self._passes_done = 0
        self._times: dict[str, float] = {}
        self._previous = self._text(module) if self._keeps_text else ""
        self._write_reproducer(module)
        self._started = time.perf_counter()

    @property
    def _keeps_text(self) -> bool:
        return bool(self._before or self._options.print_ir_before_all)

    def __call__(self, done: Pass, module: ir.Module) -> None:
        """Record that a pass has run."""
        spent = time.perf_counter() - self._started
        self._times[done.name] = self._times.get(done.name, 0.0) + spent
        options = self._options
        if options.print_ir_before_all or done.name in self._before:
            _dump("Before", done, self._previous)
        if options.print_ir_after_all or done.name in self._after:
            _dump("After", done, self._text(module))
        if options.verify_each:
            self._verify(module, f"after {done.name}")
        if self._keeps_text:
            self._previous = self._text(module)
        self._passes_done += 1
        if self._passes_done < len(self._commands):
            self._write_reproducer(module)
        self._started = time.perf_counter()

    def finish(self) -> None:
        """Remove the reproducer and print the times, after all passes have run."""
        if self._options.crash_reproducer:
            Path(self._options.crash_reproducer).unlink(missing_ok=True)
        if self._options.timing:
            total = sum(self._times.values())
            print(f"// {total:9.4f} s  passes, in all", file=sys.stderr)
            for name, spent in sorted(self._times.items(), key=lambda one: -one[1]):
                print(f"// {spent:9.4f} s  {name}", file=sys.stderr)

    def _text(self, module: ir.Module) -> str:
        debug_info = self._options.mlir_print_debuginfo
        return str(module.operation.get_asm(enable_debug_info=debug_info, assume_verified=True))

    def _write_reproducer(self, module: ir.Module) -> None:
        # Written before the pass runs, because nothing runs after a crash.
        path = self._options.crash_reproducer
        if path and self._passes_done < len(self._commands):
            text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
            command = self._commands[self._passes_done]
            Path(path).write_text(f"// Run: gnomon-opt {command} {path}\n{text}")


def _dump(when: str, done: Pass, text: str) -> None:
    print(f"// -----// IR Dump {when} {done.name} //----- //\n{text}", file=sys.stderr)
