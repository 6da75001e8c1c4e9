"""The transformations of the command line, applied in the order in which they are given.

``--grad --vmap 0,None`` is ``vmap(grad(f), (0, None))``.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gnomon
from gnomon import tree_util
from gnomon.tools.driver.errors import UsageError

__all__ = [
    "OPTIONAL_NUMBERS",
    "Transformation",
    "add_batch_dimensions",
    "add_options",
    "apply",
]

# For each option, the function of gnomon and the help text.
_OF_ARGUMENTS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "grad": (gnomon.grad, "differentiate by argument 0, or by ARGNUMS"),
    "value-and-grad": (gnomon.value_and_grad, "the same, and return the value too"),
    "jacfwd": (gnomon.jacfwd, "the Jacobian by forward mode"),
    "jacrev": (gnomon.jacrev, "the Jacobian by reverse mode"),
    "hessian": (gnomon.hessian, "the matrix of second derivatives"),
}
_PLAIN: Mapping[str, tuple[Callable[..., Any], str]] = {
    "jit": (gnomon.jit, "compile the function inside separately"),
    "checkpoint": (gnomon.checkpoint, "compute intermediate values again for the gradient"),
}


# The options whose numbers are optional.
OPTIONAL_NUMBERS = tuple(f"--{name}" for name in _OF_ARGUMENTS)


@dataclass(frozen=True)
class Transformation:
    """A transformation of the command line.

    Attributes:
      name: the option without its dashes.
      value: argument numbers, axes, or None.
    """

    name: str
    value: Any = None


class _Append(argparse.Action):
    """Appends a transformation to one list, so that the order of different options is kept."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = (option_string or "").lstrip("-")
        value = None
        if name == "vmap":
            value = _parse_axes(parser, values)
        elif name in _OF_ARGUMENTS:
            value = _parse_argument_numbers(parser, name, values)
        chain = [*(namespace.transformations or ()), Transformation(name, value)]
        namespace.transformations = chain


def _parse_axes(parser: argparse.ArgumentParser, text: str) -> Any:
    try:
        axes = ast.literal_eval(text.strip())
    except (SyntaxError, ValueError):
        parser.error(f"argument --vmap: {text!r} is not a list of axes such as 0 or 0,None")
    return axes


def _parse_argument_numbers(
    parser: argparse.ArgumentParser, name: str, text: str | None
) -> int | tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in (text or "0").split(","))
    except ValueError:
        parser.error(f"argument --{name}: {text!r} is not a list of argument numbers such as 0,2")
    return numbers[0] if len(numbers) == 1 else numbers


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    group = parser.add_argument_group(
        "transformations", "of a Python function, applied in the order in which they are given"
    )
    for name, (_, meaning) in _OF_ARGUMENTS.items():
        group.add_argument(
            f"--{name}",
            action=_Append,
            dest="transformations",
            nargs="?",
            metavar="ARGNUMS",
            help=meaning,
        )
    group.add_argument(
        "--vmap",
        action=_Append,
        dest="transformations",
        metavar="AXES",
        help="map over an axis of the arguments: 0, or one for each argument: 0,None",
    )
    for name, (_, meaning) in _PLAIN.items():
        group.add_argument(
            f"--{name}", action=_Append, dest="transformations", nargs=0, help=meaning
        )
    group.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="size of the axes that --vmap adds to the example of the file",
    )


def apply(fun: Callable[..., Any], chain: Sequence[Transformation]) -> Callable[..., Any]:
    """The transformed function."""
    for one in chain:
        if one.name == "vmap":
            fun = gnomon.vmap(fun, in_axes=one.value)
        elif one.name in _PLAIN:
            fun = _PLAIN[one.name][0](fun)
        else:
            fun = _OF_ARGUMENTS[one.name][0](fun, one.value)
    return fun


def add_batch_dimensions(
    args: Sequence[Any], chain: Sequence[Transformation], size: int | None
) -> tuple[Any, ...]:
    """Add the axes of each `vmap` to the types of a function's arguments.

    Raises:
      UsageError: there is a `vmap`, but no size, or its axes are not one number or None for each
        argument.
    """
    args = tuple(args)
    if size is not None and all(one.name != "vmap" for one in chain):
        raise UsageError("--batch-size is the size of the axes of --vmap, and there is none")
    for one in chain:
        if one.name != "vmap":
            continue
        if size is None:
            raise UsageError(
                "the example in the file is for the function without --vmap: give the size of the "
                "mapped axes with --batch-size, or all types with --args"
            )
        axes = one.value if isinstance(one.value, tuple) else (one.value,) * len(args)
        if len(axes) != len(args) or not all(a is None or isinstance(a, int) for a in axes):
            raise UsageError(
                f"--vmap {one.value}: for the example in the file, axes are an integer or None for "
                f"each of its {len(args)} arguments; give all types with --args"
            )
        args = tuple(
            arg if axis is None else tree_util.tree_map(lambda x, a=axis: _insert(x, a, size), arg)
            for arg, axis in zip(args, axes, strict=True)
        )
    return args


def _insert(leaf: Any, axis: int, size: int) -> gnomon.ShapeDtypeStruct:
    struct = gnomon.eval_shape(lambda x: x, leaf)
    place = axis if axis >= 0 else axis + len(struct.shape) + 1
    return gnomon.ShapeDtypeStruct(
        (*struct.shape[:place], size, *struct.shape[place:]), struct.dtype
    )
