"""The options of the driver, and its entry point."""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

import gnomon
from gnomon.backends.errors import (
    BackendUnavailable,
    CompilationError,
    CompilerUnavailable,
    GnomonRuntimeError,
)
from gnomon.backends.iree.backend import IreeBackend
from gnomon.tools.driver.cache import cache_command, parse_age, parse_size
from gnomon.tools.driver.completion import SHELLS, script
from gnomon.tools.driver.diagnostics import describe_error
from gnomon.tools.driver.emission import EMITTED, STAGES, compile_command
from gnomon.tools.driver.environment import (
    devices_command,
    doctor_command,
    targets_command,
    version_command,
)
from gnomon.tools.driver.errors import DriverError, Status
from gnomon.tools.driver.execution import run_command
from gnomon.tools.driver.exploration import explore_command
from gnomon.tools.driver.inspection import diff_command, inspect_command
from gnomon.tools.driver.requests import add_program_options
from gnomon.tools.driver.transformations import OPTIONAL_NUMBERS
from gnomon.tools.opt import main as opt_main
from gnomon_runtime import ArtifactError, MissingModuleError

__all__ = ["main", "make_parser"]

_NUMBERS = re.compile(r"[\d.,]+")

_EPILOG = """\
exit status:
  0  success
  1  a program or a file is wrong, or the compiler refuses the program
  2  the command line is wrong
  3  results are not those expected (run --expect), or programs differ (diff)
  4  a device, a compiler or a package is missing

environment:
  GNOMON_CACHE_DIR  the folder of the cache of executables
  GNOMON_PLATFORMS  the platforms in use, the default one first
  GNOMON_TRACEBACK  print the traceback of errors, too

docs/driver.md has a transcript of each command.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that names the word that a misspelt one may stand for."""

    def error(self, message: str) -> NoReturn:
        words = re.findall(r"invalid choice: '([^']*)'|(--[\w-]+)", message.partition("(")[0])
        for word in filter(None, itertools.chain.from_iterable(words)):
            known = [name for name in _names(self) if name.startswith("-") == word.startswith("-")]
            near = difflib.get_close_matches(word, known, 1)
            if near and near != [word]:
                message = message.partition(" (choose from")[0]
                message += f"; did you mean {near[0]!r}?"
        super().error(message)


def _names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options and choices of a parser, and the options of its commands."""
    yield from parser._option_string_actions
    for action in parser._actions:
        yield from map(str, action.choices or ())
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from command._option_string_actions


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = _Parser(
        prog="gnomon",
        description="The gnomon compiler driver.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"gnomon {gnomon.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str,
        help_: str,
        run: Callable[[argparse.Namespace], None],
        description: str = "",
        *,
        json: bool = True,
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=help_,
            description=textwrap.dedent(description).strip() or f"{help_.capitalize()}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        if json:
            sub.add_argument("--json", action="store_true", help="print JSON")
        return sub

    _add_compile(command)
    _add_run(command)
    _add_inspect_and_diff(command)

    command("devices", "list the devices that programs can run on", devices_command)
    command("targets", "list the values of the option --target", targets_command)
    command(
        "doctor",
        "check the installation and every device",
        doctor_command,
        """
        Check the packages, the cache, the linker, the compiler and every device, by compiling
        and running a small program. Lines begin with ok, with -- for what is optional and
        missing, and with !! for what is broken.
        """,
    )
    sub = command("cache", "list or remove the executables kept on disk", cache_command)
    sub.add_argument("action", choices=("list", "size", "prune", "clear"))
    sub.add_argument(
        "--max-size",
        type=parse_size,
        metavar="SIZE",
        help="prune: remove the least recently used ones beyond SIZE, such as 500M",
    )
    sub.add_argument(
        "--older-than",
        type=parse_age,
        metavar="AGE",
        help="prune: remove those not used for AGE, such as 30d",
    )
    # `main` passes the arguments of this command to `gnomon-opt`.
    command("opt", "run passes on MLIR text, as gnomon-opt does", _opt, json=False)
    sub = command(
        "completion", "print a script for the completion of a shell", _completion, json=False
    )
    sub.add_argument("shell", choices=sorted(SHELLS))
    command("version", "print the versions of gnomon and its dependencies", version_command)
    return parser


def _add_compile(command: Callable[..., argparse.ArgumentParser]) -> None:
    sub = command(
        "compile",
        "compile a program, or stop at any stage",
        compile_command,
        """
        Compile a function of Python or a program in MLIR, for one or several targets, or print
        it at a stage on the way. Text goes to standard output, unless -o names a file.
        """,
        json=False,
    )
    add_program_options(sub)
    sub.add_argument("-o", "--output", metavar="FILE", help="the file to write, or -")
    sub.add_argument(
        "--target",
        default="cpu",
        metavar="TARGETS",
        help="separated by commas, such as cpu,vulkan,cuda:sm_90,tpu:v5e:2x2 (`gnomon targets`)",
    )
    sub.add_argument(
        "--emit", choices=list(EMITTED), help="what to write; by default what -o's suffix says"
    )
    sub.add_argument("--debug-info", action="store_true", help="print the user's lines in stages")


def _add_run(command: Callable[..., argparse.ArgumentParser]) -> None:
    sub = command(
        "run",
        "compile and run a program",
        run_command,
        """
        Compile and run a program. Arguments that --input does not give are those of the example
        in the file or, with --random, random numbers.
        """,
    )
    add_program_options(sub)
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="an argument: FILE.npy, FILE.npz, FILE.safetensors, 'f32[3]=1,2,3', or 1,2,3; with "
        "NAME= before it, the one of that name",
    )
    sub.add_argument(
        "--random",
        type=_number_or(0, int),
        nargs="?",
        const=0,
        metavar="SEED",
        help="random numbers for arguments that are not given",
    )
    sub.add_argument("--device", metavar="PLATFORM", help="where to run it (`gnomon devices`)")
    sub.add_argument(
        "--evaluate", action="store_true", help="evaluate MLIR with NumPy, without compiling"
    )
    sub.add_argument(
        "--output", metavar="FILE", help="write the results to a .npy, .npz or .safetensors file"
    )
    sub.add_argument("--expect", metavar="FILE", help="compare the results with those of a file")
    sub.add_argument("--rtol", type=float, help="relative tolerance of --expect")
    sub.add_argument("--atol", type=float, help="absolute tolerance of --expect")
    sub.add_argument(
        "--benchmark",
        type=_number_or(1.0, float),
        nargs="?",
        const=1.0,
        metavar="SECONDS",
        help="call it for this many seconds (default: 1) and print statistics",
    )


def _add_inspect_and_diff(command: Callable[..., argparse.ArgumentParser]) -> None:
    sub = command("inspect", "show signature, cost and ops of a program", inspect_command)
    add_program_options(sub)
    sub.add_argument("--target", default="cpu", help="the target that it is lowered for")

    sub = command(
        "explore",
        "write an HTML page of a function at every stage",
        explore_command,
        """
        Write one HTML page: the source next to every stage of the program, each line linked with
        the operations that it became, kernels and assembly, what each pass changed, the cost of
        each line, and the program as a graph. The page refers to nothing on the network.
        """,
        json=False,
    )
    add_program_options(sub)
    sub.add_argument("-o", "--output", metavar="FILE", help="default: FUNCTION.html; - for stdout")
    sub.add_argument("--target", default="cpu", help="the target that it is compiled for")
    sub.add_argument(
        "--code",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compile it, and show kernels and assembly (default)",
    )

    sub = command(
        "diff",
        "show how two programs differ",
        diff_command,
        """
        Show how two programs differ: their types, the number of ops of each kind, and the text
        of a stage. The status is 0 if they are equal there, and 3 if they differ.
        """,
    )
    add_program_options(sub, positional="before")
    sub.add_argument("after", metavar="AFTER", help="the other program")
    sub.add_argument("--target", default="cpu", help="the target that they are lowered for")
    sub.add_argument("--stage", choices=STAGES, default="stablehlo", help="what is compared")
    sub.add_argument("--context", type=int, default=3, metavar="N", help="lines around changes")


def _with_values(arguments: Sequence[str]) -> list[str]:
    """The command line with ``--grad 0`` as ``--grad=0``, and ``--grad FILE`` as ``--grad= FILE``.

    Otherwise argparse would take the file as the value of an option whose value is optional.
    """
    result: list[str] = []
    for argument in arguments:
        if result and result[-1] in (*OPTIONAL_NUMBERS, "--random", "--benchmark"):
            is_number = _NUMBERS.fullmatch(argument) is not None
            result[-1] += f"={argument}" if is_number else "="
            if is_number:
                continue
        result.append(argument)
    return result


def _number_or(default: Any, kind: type) -> Callable[[str], Any]:
    """The argparse type of an option whose value is optional."""

    def parse(text: str) -> Any:
        return kind(text) if text else default

    parse.__name__ = kind.__name__  # argparse names it in errors
    return parse


def _opt(options: argparse.Namespace) -> None:
    raise AssertionError("main passes the arguments to gnomon-opt")


def _completion(options: argparse.Namespace) -> None:
    sys.stdout.write(script(options.shell, make_parser()))


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["opt"]:
        return opt_main(given[1:])
    if not given:
        make_parser().print_help()
        return Status.SUCCESS
    options = make_parser().parse_args(_with_values(given))
    try:
        with gnomon.enable_x64() if getattr(options, "x64", False) else nullcontext():
            options.run(options)
        sys.stdout.flush()
    except DriverError as error:
        print(f"gnomon: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has exited, as `head` does, so an error would not be read.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.SUCCESS
    except ArtifactError as error:
        print(f"gnomon: {error}", file=sys.stderr)
        return Status.UNAVAILABLE if isinstance(error, MissingModuleError) else Status.FAILED
    except (BackendUnavailable, CompilerUnavailable) as error:
        print(f"gnomon: {error}", file=sys.stderr)
        return Status.UNAVAILABLE
    except Exception as error:
        if os.environ.get("GNOMON_TRACEBACK"):
            traceback.print_exception(error)
        print(describe_error(error, _located(error)), file=sys.stderr)
        return Status.FAILED
    return Status.SUCCESS


def _located(error: Exception) -> str:
    """The compiler's message about a program that it rejected, with the user's lines."""
    lowered = getattr(error, "lowered_program", None)
    if not isinstance(error, CompilationError) or lowered is None:
        return ""
    if not isinstance(lowered.backend, IreeBackend) or not error.diagnostics:
        return ""
    try:
        return lowered.backend.locate_refusal(lowered.artifact)
    except GnomonRuntimeError:
        return ""
