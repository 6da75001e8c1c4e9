"""`composite`: an operation composed of others, with a name that a compiler may know."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gnomon import tree_util
from gnomon._diagnostics.errors import UnexpectedTracerError
from gnomon._tracing.function import check_callable, trace_function
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_rules import Call, emit_custom
from gnomon.dialects.emit import ops


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """Give a name to an operation that is composed of others.

    Args:
      decomposition: a function that computes the operation. Its positional arguments are arrays;
        its keyword arguments are attributes, which are part of the program.
      name: the name of the operation in the text of the program.
      version: the version of its definition.
    Returns:
      A function like ``decomposition``. `vmap` can map it; it can only be differentiated inside of
      a `custom_jvp` or `custom_vjp`.
    Raises:
      UnexpectedTracerError: an attribute is a traced value.
      ValueError: the function is differentiated.

    Example:
      >>> import functools
      >>> import gnomon as gn
      >>> @functools.partial(gn.lax.composite, name="my.power")
      ... def power(x, /, *, exponent):
      ...     return x**exponent
      >>> print(gn.jit(lambda x: power(x, exponent=2))(3.0))
      9.0
    """
    check_callable(decomposition, "composite")

    @functools.wraps(decomposition)
    def function(*args: Any, **kwargs: Any) -> Any:
        if any(is_tracer(leaf) for leaf in tree_util.tree_leaves(kwargs)):
            raise UnexpectedTracerError(
                f"an attribute of the composite {name!r} is a traced value; attributes are part of "
                "the program. Give the value by position"
            )
        given = functools.partial(decomposition, **kwargs)
        call = Call(args, ())
        if call.runs_eagerly:
            return call.run(given)
        traced = trace_function(
            lambda tracers: (given(*call.arguments(tracers)), None),
            decomposition,
            "composite",
            call.avals,
            staging=True,
            sources=call.operands,
        )
        known = {key: value for key, value in kwargs.items() if value is not None}
        params = {"name": name, "version": version, "keywords": repr(known)}
        return emit_custom(ops.composite, call, traced, [], params)

    return function


__all__ = ["composite"]
