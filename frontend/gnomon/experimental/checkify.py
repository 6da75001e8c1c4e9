"""Run-time errors in traced functions: `check` a condition, `checkify` a function to get the error.

    err, y = checkify.checkify(f)(x)
    err.throw()

The checked function is again a function of arrays: it can be jitted, mapped or used in a loop. An
`Error` is a pytree with the number of the first check that failed and the values in its message.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._tracing.bind import as_operand, bind, trace_for
from gnomon._tracing.function import apply, check_callable, trace_function, with_avals
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon.dialects import functions
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.check import JaxRuntimeError
from gnomon.dialects.emit import ops
from gnomon.passes.functionalize_checks import (
    DIVISION,
    INDEX,
    NAN,
    USER,
    Site,
    functionalize_checks,
)

__all__ = [
    "Error",
    "ErrorCategory",
    "JaxRuntimeError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]

# Messages and pickles name the public module.
JaxRuntimeError.__module__ = __name__


class FailedCheckError(JaxRuntimeError):
    """A `check` failed."""


class NaNError(JaxRuntimeError):
    """An op gave a nan."""


class DivisionByZeroError(JaxRuntimeError):
    """A divisor was zero."""


class OOBError(JaxRuntimeError):
    """An index was out of bounds."""


ErrorCategory = type[JaxRuntimeError]

_KINDS: dict[type, str] = {
    FailedCheckError: USER,
    NaNError: NAN,
    DivisionByZeroError: DIVISION,
    OOBError: INDEX,
}

user_checks: frozenset[ErrorCategory] = frozenset({FailedCheckError})
nan_checks: frozenset[ErrorCategory] = frozenset({NaNError})
index_checks: frozenset[ErrorCategory] = frozenset({OOBError})
div_checks: frozenset[ErrorCategory] = frozenset({DivisionByZeroError})
float_checks: frozenset[ErrorCategory] = nan_checks | div_checks
automatic_checks: frozenset[ErrorCategory] = float_checks | index_checks
all_checks: frozenset[ErrorCategory] = automatic_checks | user_checks


@tree_util.register_pytree_node_class
class Error:
    """The result of `checkify`: no error, or the first check that failed.

    A pytree of arrays; under `vmap` each element has its own error.
    """

    def __init__(self, code: Any, payload: Sequence[Any] = (), sites: tuple[Site, ...] = ()):
        self._code = code
        self._payload = tuple(payload)
        self._sites = sites

    def tree_flatten(self) -> tuple[Any, Any]:
        """The number of the failed check and all payloads as children; the checks as data."""
        return (self._code, self._payload), self._sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[Site, ...], children: Any) -> Error:
        """The inverse of `tree_flatten`."""
        code, payload = children
        return cls(code, payload, sites)

    def get(self) -> str | None:
        """The message of the first check that failed, or None.

        For a mapped error, the messages of all elements, one per line.
        """
        code = concrete_value(self._code)
        if code is None:
            raise ValueError(
                "Error.get needs values, and the error is being traced: return it from the traced "
                "function, or use checkify.check_error"
            )
        if not code.any():
            return None
        payload = [np.asarray(concrete_value(p)) for p in self._payload]
        if not code.ndim:
            return self._message(int(code), payload)
        lines = []
        for index in itertools.product(*map(range, code.shape)):
            if code[index]:
                text = self._message(int(code[index]), [p[index] for p in payload])
                lines.append(f"at mapped index {', '.join(map(str, index))}: {text}")
        return "\n".join(lines)

    def _message(self, code: int, payload: Sequence[np.ndarray[Any, Any]]) -> str:
        at = sum(len(site.payload) for site in self._sites[: code - 1])
        site = self._sites[code - 1]
        (text,) = site.callback.function(*payload[at : at + len(site.payload)])
        return str(text)

    def throw(self) -> None:
        """Raise `JaxRuntimeError` if a check failed."""
        message = self.get()
        if message is not None:
            raise JaxRuntimeError(message)

    def get_exception(self) -> JaxRuntimeError | None:
        """The error that `throw` would raise, or None."""
        message = self.get()
        return None if message is None else JaxRuntimeError(message)

    def __repr__(self) -> str:
        if any(is_tracer(leaf) for leaf in tree_util.tree_leaves(self)):
            return f"Error(traced, of {len(self._sites)} checks)"
        return f"Error({self.get()})"


init_error = Error(np.zeros((), np.int32))


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """Make a function that returns an `Error` and the result of ``f``.

    Args:
      f: a function of arrays and pytrees of them, which may `check` conditions anywhere: in
        jitted functions, under `vmap` and `grad`, in loops and branches.
      errors: the kinds of checks: ``user_checks`` (calls of `check`), ``nan_checks``,
        ``div_checks`` (division by zero), ``float_checks`` (both of these), ``index_checks``,
        ``automatic_checks`` (all but the user's) or ``all_checks``.
    Returns:
      A function of the same arguments that returns ``(error, out)``. The program goes on after a
      failed check.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon.experimental import checkify
      >>> def f(x):
      ...     checkify.check(x > 0, "x must be positive, got {x}", x=x)
      ...     return gnp.log(x)
      >>> err, y = gn.jit(checkify.checkify(f))(gnp.float32(-1))
      >>> print(err.get())
      x must be positive, got -1.0 (`check` failed)
    """
    check_callable(f, "checkify")
    kinds = frozenset(_KINDS[category] for category in errors)

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        # Python numbers are not traced, as in JAX: they may be used in Python conditions.
        places = [i for i, x in enumerate(leaves) if isinstance(x, (Array, np.ndarray, np.generic))]
        arrays = [as_operand(leaves[i]) for i in places]

        def call(tracers: list[Any]) -> tuple[Any, Any]:
            full = list(leaves)
            for i, tracer in zip(places, tracers, strict=True):
                full[i] = tracer
            inner_args, inner_kwargs = tree_util.tree_unflatten(tree, full)
            return f(*inner_args, **inner_kwargs), None

        traced = trace_function(call, f, "checkify", [a.aval for a in arrays], staging=True)
        body, sites = functionalize_checks(traced.program, traced.body, kinds)
        results = apply(functions.call, traced._replace(body=body), [*arrays, *traced.captures])
        count = 1 + sum(len(site.payload) for site in sites)
        code, *payload = results[:count]
        outs = with_avals(results[count:], traced.avals)
        return Error(code, payload, tuple(sites)), tree_util.tree_unflatten(traced.tree, outs)

    return checked


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Check a condition: record a failure for `checkify`, or raise it in eager code.

    Args:
      pred: a boolean scalar that should be true.
      msg: the message of a failure, which is formatted with the arguments after it.
      fmt_args, fmt_kwargs: pytrees of arrays.
      debug: do nothing unless the function is functionalized by `checkify`.
    Raises:
      JaxRuntimeError: the condition is known and false, outside of traced functions.
      TypeError: ``pred`` is not a boolean scalar, or a value to be formatted is not an array.
      IndexError, KeyError: the message formats an argument that is not given.
      ValueError: `check` is used under `jit` without `checkify`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.experimental import checkify
      >>> def f(x):
      ...     checkify.check(x > 0, "x must be positive, got {}", x)
      ...     return gnp.log(x)
      ...
      >>> error, _ = checkify.checkify(f)(gnp.array(-1.0))
      >>> print(error.get())
      x must be positive, got -1.0 (`check` failed)
    """
    if not isinstance(msg, str):
        raise TypeError(f"check takes a string as its message, got {msg!r}")
    predicate = as_operand(pred)
    if predicate.shape != ():
        raise TypeError(f"check takes a scalar pred as argument, got {predicate!r}")
    if predicate.dtype != np.bool_:
        raise TypeError(f"check takes a boolean pred as argument, got one of {predicate.dtype}")
    leaves, tree = tree_util.tree_flatten((fmt_args, fmt_kwargs))
    for leaf in leaves:
        if not isinstance(leaf, (Array, np.ndarray, np.generic)):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{leaf!r} of type {type(leaf)}."
            )
    dummy_args, dummy_kwargs = tree_util.tree_unflatten(tree, [np.zeros(())] * len(leaves))
    try:
        msg.format(*dummy_args, **dummy_kwargs)
    except (IndexError, KeyError) as error:
        raise type(error)(
            f"check: the message {msg!r} formats an argument that is not given: {error}"
        ) from None
    except (TypeError, ValueError, AttributeError):
        pass  # the values may accept a format that the placeholders do not

    def text(*payload: np.ndarray[Any, Any]) -> tuple[str]:
        args, kwargs = tree_util.tree_unflatten(tree, [wrap(np.asarray(p)) for p in payload])
        return (f"{msg.format(*args, **kwargs)} (`check` failed)",)

    _emit(predicate, text, [as_operand(leaf) for leaf in leaves], msg, debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that does nothing unless the function is functionalized by `checkify`.

    Args:
      pred: a boolean scalar that should be true.
      msg: the message of a failure, which is formatted with the arguments after it.
      fmt_args, fmt_kwargs: pytrees of arrays.

    Example:
      >>> from gnomon.experimental import checkify
      >>> def f(x):
      ...     checkify.debug_check(x > 0, "x must be positive")
      ...     return 2 * x
      ...
      >>> f(-1.0)
      -2.0
      >>> print(checkify.checkify(f)(-1.0)[0].get())
      x must be positive (`check` failed)
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise an error that `checkify` returned; in a traced function, `check` it instead.

    Args:
      error: the error.
    Raises:
      JaxRuntimeError: a check failed, outside of traced functions.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.experimental import checkify
      >>> def f(x):
      ...     checkify.check(x > 0, "x must be positive")
      ...     return gnp.log(x)
      ...
      >>> error, _ = checkify.checkify(f)(-1.0)
      >>> checkify.check_error(error)
      Traceback (most recent call last):
          ...
      gnomon...JaxRuntimeError: x must be positive (`check` failed)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error, got {error!r}")
    leaves, tree = tree_util.tree_flatten(error)
    arrays = [as_operand(leaf) for leaf in leaves]
    if trace_for(arrays) is None:
        error.throw()
        return

    def text(*payload: np.ndarray[Any, Any]) -> tuple[str]:
        return (str(tree_util.tree_unflatten(tree, payload).get()),)

    code = arrays[0]
    passed = bind(ops.eq, code, np.zeros(code.shape, np.int32))
    if code.ndim:
        passed = bind(ops.reduce_and, passed, axes=tuple(range(code.ndim)))
    _emit(passed, text, arrays, "check_error", False)


def _emit(
    predicate: Array, text: Callable[..., tuple[str]], payload: list[Any], msg: str, debug: bool
) -> None:
    trace = trace_for([predicate, *payload])
    if trace is None:
        if not debug and not concrete_value(predicate):
            raise JaxRuntimeError(text(*(np.asarray(concrete_value(p)) for p in payload))[0])
        return
    callback = Callback(text)
    trace.program.callbacks.append(callback)
    params = {"callback": callback.number, "message": msg, "debug": bool(debug)}
    trace.bind(ops.check, [predicate, *payload], params)
