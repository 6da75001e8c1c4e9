"""The options that name a program, shared by the commands."""

from __future__ import annotations

import argparse

from gnomon.tools.driver import transformations
from gnomon.tools.driver.errors import UsageError
from gnomon.tools.driver.programs import EXAMPLE_SUFFIX, Request

__all__ = ["add_program_options", "request_of"]


def add_program_options(parser: argparse.ArgumentParser, *, positional: str = "program") -> None:
    """Add the program and the options of Python functions to a command."""
    parser.add_argument(
        positional,
        metavar=positional.upper(),
        help="FILE.py:FUNCTION, MODULE:FUNCTION, MLIR as text or bytecode, - for standard input, "
        "FILE.gnm or FILE.gnm:FUNCTION",
    )
    parser.add_argument(
        "--args",
        metavar="TYPES",
        help="types of the arguments, such as 'f32[128,784] {w: f32[3], b: f32}'; by default those "
        f"of FUNCTION{EXAMPLE_SUFFIX} in the file",
    )
    parser.add_argument(
        "--static",
        metavar="ARGNUMS",
        default="",
        help="positions of arguments that are Python values, such as 2,3",
    )
    parser.add_argument("--x64", action="store_true", help="allow arrays of 64 bits")
    transformations.add_options(parser)


def request_of(options: argparse.Namespace, path: str | None = None) -> Request:
    """The request of a command line."""
    try:
        static = tuple(int(number) for number in options.static.split(",") if number)
    except ValueError:
        raise UsageError(
            f"--static: {options.static!r} is not a list of argument numbers"
        ) from None
    return Request(
        path or options.program,
        options.args,
        tuple(options.transformations or ()),
        options.batch_size,
        static,
    )
