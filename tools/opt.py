"""``gnomon-opt``: run passes on MLIR text.

    gnomon-opt --passes=expand-transformations,inline,cse program.mlir
    gnomon-opt --pipeline=stablehlo --print-ir-after-all program.mlir
    gnomon-opt --pipeline=iree --target=cuda:sm_90 program.mlir
    gnomon-opt --passes=sorts --target=vulkan program.mlir

The pipeline ``iree`` prints the program that the backend passes to IREE's compiler. The
legalizations of a target are passes too. The input may contain ops of the gnomon dialect, ``func``
and StableHLO. It is verified when it is read and after every pass.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.iree.pipeline import Pipeline, has_compiler_ops, legalization_passes
from gnomon.backends.iree.targets import find_target
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, other_dialects
from gnomon.passes.pipeline import EXPAND, LOWER, PASSES, Pass, run_passes
from gnomon.tools.opt_observer import PassObserver, add_options
from gnomon.tools.source_lines import describe_parse_error
from gnomon_runtime.writing import write_file

# The backend's own pipeline, which depends on the target.
IREE = "iree"

PIPELINES: dict[str, tuple[str, ...]] = {
    "none": (),
    "expand": EXPAND,
    "stablehlo": (*EXPAND, *LOWER),
    IREE: (),
}

SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)


class OptError(Exception):
    """An error that the tool prints before it exits with status 1."""


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="gnomon-opt", description="Run passes on MLIR text.")
    parser.add_argument("file", nargs="?", default="-", help="MLIR text; - is standard input")
    parser.add_argument("-o", "--output", default="-", help="where the result goes (default: -)")
    parser.add_argument("--passes", default="", help="names of passes, separated by commas")
    parser.add_argument(
        "--pipeline", choices=sorted(PIPELINES), default="none", help="a pipeline, before --passes"
    )
    parser.add_argument(
        "--target", default="cpu", help="for the pipeline iree and legalizations (default: cpu)"
    )
    add_options(parser)
    parser.add_argument(
        "--split-input-file", action="store_true", help="run on each part between // ----- lines"
    )
    parser.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="succeed if each part fails as its '// expected-error {{text}}' lines say",
    )
    parser.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    parser.add_argument("--list-passes", action="store_true", help="list the passes and exit")
    return parser.parse_args(arguments)


def read_text(path: str) -> str:
    """The text of a file, or of standard input for ``-``.

    Raises:
      OptError: the file is binary.
    """
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OptError(f"{path}: the file is not MLIR text") from None


def all_passes(options: argparse.Namespace) -> dict[str, Pass]:
    """The passes by name, including the legalizations of the target.

    Raises:
      OptError: there is no such target.
    """
    try:
        return {**PASSES, **legalization_passes(find_target(options.target))}
    except ValueError as error:
        raise OptError(str(error)) from None


def pass_names(options: argparse.Namespace, passes: Mapping[str, Pass]) -> list[str]:
    """The passes to run, in order."""
    names = list(PIPELINES[options.pipeline])
    names += [name.strip() for name in options.passes.split(",") if name.strip()]
    for name in names:
        if name not in passes:
            known = ", ".join(sorted(passes))
            raise OptError(
                f"there is no pass '{name}' for the target {options.target}; the passes are {known}"
            )
    return names


def transform(text: str, options: argparse.Namespace, name: str) -> str:
    """Run the passes on one module; return its text.

    Raises:
      OptError: the text does not parse, does not verify, or a pass rejects it.
    """
    ensure_context()
    passes = all_passes(options)
    names = pass_names(options, passes)
    try:
        module = ir.Module.parse(text, context())
    except ir.MLIRError as error:
        raise OptError(describe_parse_error(str(error), options.file, text)) from error
    target = f"--target={options.target}"
    commands = [f"--passes={one} {target}" for one in names]
    if options.pipeline == IREE:
        commands = [f"--pipeline={IREE} --passes={options.passes} {target}"]
    try:
        after = PassObserver(options, module, commands, verify)
        if options.pipeline == IREE:
            pipeline = Pipeline(find_target(options.target))
            lowered = pipeline.lower(Program(module), observe=after)
            if not names:
                after.finish()
                return lowered.text
        run_passes(module, names, after, passes)
        after.finish()
    except (TypeError, ValueError, UnsupportedOnTarget, ir.MLIRError) as error:
        raise OptError(f"{name}: {type(error).__name__}: {error}") from error
    # The module was verified after each pass. The printer's check would reject IREE's own ops.
    return str(
        module.operation.get_asm(
            enable_debug_info=options.mlir_print_debuginfo, assume_verified=True
        )
    )


def verify(module: ir.Module, when: str) -> None:
    """Raise `OptError` if the module does not verify."""
    allowed = other_dialects(context()) if has_compiler_ops(module) else nullcontext()
    try:
        with allowed:
            module.operation.verify()
    except ir.MLIRError as error:
        raise OptError(f"the module does not verify {when}: {error}") from error


EXPECTED = re.compile(r"//\s*expected-error\s*\{\{(.*?)\}\}")


def check_diagnostics(text: str, options: argparse.Namespace, name: str) -> None:
    """Raise `OptError` unless the part fails with all the errors that it expects."""
    expected = EXPECTED.findall(text)
    try:
        transform(text, options, name)
    except OptError as error:
        missing = [e for e in expected if e not in str(error)]
        if expected and not missing:
            return
        what = f"without {missing[0]!r}" if missing else "unexpectedly"
        raise OptError(f"{name}: failed {what}:\n{error}") from error
    if expected:
        raise OptError(f"{name}: expected the error {expected[0]!r}, but it succeeded")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit status."""
    options = parse_arguments(arguments)
    if options.list_passes:
        passes = all_passes(options)
        width = max(map(len, passes))
        for name, entry in sorted(passes.items()):
            print(f"{name:<{width}}  {entry.doc}")
        return 0
    try:
        text = read_text(options.file)
        parts = SPLIT.split(text) if options.split_input_file else [text]
        outputs = []
        lines = 0
        for i, part in enumerate(parts):
            # Blank lines before a part give its lines the numbers that they have in the file.
            part = "\n" * lines + part
            lines = part.count("\n")
            name = options.file if len(parts) == 1 else f"{options.file}, part {i + 1}"
            if options.verify_diagnostics:
                check_diagnostics(part, options, name)
            else:
                outputs.append(transform(part, options, name))
        result = "\n// -----\n\n".join(outputs)
        if options.output == "-":
            sys.stdout.write(result)
        else:
            write_file(options.output, [result.encode()])
    except (OptError, OSError) as error:
        print(f"gnomon-opt: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
