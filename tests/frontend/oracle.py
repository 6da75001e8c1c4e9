"""JAX as the reference: compare a call of gnomon with the same call of JAX.

Values, dtypes, weak types and shapes must be equal; the values of transcendental functions may
differ by a few units in the last place. If JAX raises, gnomon must raise an error of the same kind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gnomon as gn
from gnomon._arrays.concrete import wrap
from tests.tolerance import assert_each_near, assert_near

Pair = tuple[Any, Any]


def to_gnomon(x: Any) -> Any:
    """Arrays of JAX (also in lists, tuples and dicts) as arrays of gnomon; others unchanged."""
    if isinstance(x, jax.Array):
        return wrap(np.array(x), x.weak_type)
    if isinstance(x, (list, tuple)):
        parts = [to_gnomon(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, dict):
        return {k: to_gnomon(v) for k, v in x.items()}
    return x


def outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> Pair:
    """``(result, None)`` or ``(None, error)``; warnings are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


KINDS = (
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    ZeroDivisionError,
    NotImplementedError,
    AttributeError,
)


def kind(error: BaseException) -> type:
    """The first of `KINDS` that an error is an instance of, or else its own class."""
    return next((k for k in KINDS if isinstance(error, k)), type(error))


def assert_same(
    ours: Any,
    theirs: Any,
    ulps: float = 0.0,
    weak: bool = True,
    scale: float = 0.0,
    together: bool = False,
) -> None:
    """Compare results: arrays, or trees of lists and tuples of them; see `assert_close`."""
    if isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple)), f"{type(ours)} is no sequence"
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, ulps, weak, scale, together)
        return
    if isinstance(theirs, jax.ShapeDtypeStruct):
        assert isinstance(ours, gn.Array | np.ndarray), f"{type(ours)} instead of an Array"
        given = (ours.shape, ours.dtype, getattr(ours, "weak_type", False) if weak else None)
        expected = (theirs.shape, theirs.dtype, theirs.weak_type if weak else None)
        assert given == expected, f"{given} instead of {expected}"
        return
    if not isinstance(theirs, jax.Array):
        assert not isinstance(ours, gn.Array), f"an Array where JAX gives {type(theirs)}"
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs, f"{ours!r} instead of {theirs!r}"
        return
    assert isinstance(ours, gn.Array), f"{type(ours)} instead of an Array"
    assert ours.shape == theirs.shape, f"shape {ours.shape} instead of {theirs.shape}"
    assert ours.dtype == theirs.dtype, f"dtype {ours.dtype} instead of {theirs.dtype}"
    if weak:
        assert ours.weak_type == theirs.weak_type, f"weak_type is {ours.weak_type}"
    assert_close(np.asarray(ours), np.asarray(theirs), ulps, scale, together)


def assert_close(
    ours: np.ndarray,
    theirs: np.ndarray,
    ulps: float = 0.0,
    scale: float = 0.0,
    together: bool = False,
) -> None:
    """Equal types, and values within ``ulps`` units of the dtype.

    Units are relative to the magnitude of each element, or to ``scale`` if that is larger: the
    magnitude of the operands near a zero of the function. For elements that are computed
    ``together``, they are relative to the largest element.
    """
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if together:
        assert_near(ours, theirs, ulps, scale)
    elif theirs.dtype.kind == "c" and not ulps:
        assert_each_near(ours.real, theirs.real, 0.0)
        assert_each_near(ours.imag, theirs.imag, 0.0)
    else:
        assert_each_near(ours, theirs, ulps, scale)


def assert_trees_close(ours: Any, theirs: Any, ulps: float, scale: float = 0.0) -> None:
    """Compare pytrees of the same structure, shapes and dtypes; for ``ulps`` see `assert_near`."""
    leaves, expected = gn.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(leaves) == len(expected)
    for a, b in zip(map(np.asarray, leaves), map(np.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert_near(a, b, ulps, scale)


def check_types(
    ours: Callable[..., Any], theirs: Callable[..., Any], *args: Any, **kwargs: Any
) -> None:
    """`check` only types: JAX infers them and compiles nothing."""

    def infer(*args: Any, **kwargs: Any) -> Any:
        return jax.eval_shape(lambda: theirs(*args, **kwargs))

    check(ours, infer, *args, **kwargs)


def check(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *args: Any,
    ulps: float = 0.0,
    weak: bool = True,
    scale: float = 0.0,
    together: bool = False,
    **kwargs: Any,
) -> None:
    """Call both functions with the same arguments (arrays of JAX), and compare the outcomes."""
    got = outcome(ours, to_gnomon(args), to_gnomon(kwargs))
    _compare(got, outcome(theirs, args, kwargs), ulps, weak, scale, together)


def _compare(
    ours: Pair, theirs: Pair, ulps: float, weak: bool, scale: float, together: bool
) -> None:
    (got, our_error), (expected, their_error) = ours, theirs
    if their_error is not None:
        assert our_error is not None, (
            f"no error where JAX raises {type(their_error).__name__}: {their_error}\ngot {got!r}"
        )
        assert kind(our_error) is kind(their_error), (
            f"{type(our_error).__name__}: {our_error}\ninstead of "
            f"{type(their_error).__name__}: {their_error}"
        )
        assert str(our_error), "an error without a message"
        return
    if our_error is not None:
        raise our_error
    assert_same(got, expected, ulps, weak, scale, together)


@contextmanager
def checks_in_one_program(fused: bool = False) -> Iterator[Callable[..., None]]:
    """Give a function like `check` whose calls are collected, and compared at the end of the block.

    JAX compiles them as one program, which takes a small part of the time of one program for each.
    All differences are reported together. See `outcomes_in_one_program` for ``fused``.

    Example:
      >>> with checks_in_one_program() as check:
      ...     check(gn.lax.sin, jax.lax.sin, jnp.ones(3), ulps=2)
      ...     check(gn.lax.neg, jax.lax.neg, jnp.ones(3))
    """
    calls: list[tuple[Callable[..., Any], Callable[..., Any], Any, Any, dict[str, Any]]] = []

    def collect(
        ours: Callable[..., Any],
        theirs: Callable[..., Any],
        *args: Any,
        ulps: float = 0.0,
        weak: bool = True,
        scale: float = 0.0,
        together: bool = False,
        **kwargs: Any,
    ) -> None:
        how = {"ulps": ulps, "weak": weak, "scale": scale, "together": together}
        calls.append((ours, theirs, args, kwargs, how))

    yield collect
    expected = outcomes_in_one_program([call[1:4] for call in calls], fused)
    failures = []
    for (ours, theirs, args, kwargs, how), pair in zip(calls, expected, strict=True):
        try:
            _compare(outcome(ours, to_gnomon(args), to_gnomon(kwargs)), pair, **how)
        except Exception as error:
            name = getattr(theirs, "__name__", repr(theirs))
            given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
            failures.append(f"{name}({given}): {type(error).__name__}: {error}")
    assert not failures, "\n\n".join(failures)


def outcomes_in_one_program(
    calls: list[tuple[Callable[..., Any], Any, Any]], fused: bool = False
) -> list[Pair]:
    """The outcomes of calls of JAX, all of which are traced and compiled together.

    Arrays among the arguments are parameters of the program. Calls for which their numbers must be
    known are evaluated one by one.

    Args:
      calls: functions and their arguments.
      fused: whether products and sums are rounded once, as LLVM's optimizations have it.
    """
    leaves, tree = jax.tree.flatten([call[1:] for call in calls])
    # The same array is one parameter, so what several calls compute from it is computed once.
    arrays = {id(leaf): leaf for leaf in leaves if isinstance(leaf, jax.Array)}
    pairs: list[Pair] = []

    def program(arrays: dict[int, Any]) -> list[Any]:
        given = tree.unflatten([arrays.get(id(leaf), leaf) for leaf in leaves])
        pairs[:] = [outcome(call[0], *a) for call, a in zip(calls, given, strict=True)]
        return [x for x in jax.tree.leaves(pairs) if isinstance(x, jax.core.Tracer)]

    try:
        options = {"xla_backend_optimization_level": 2} if fused else None
        computed = iter(jax.jit(program, compiler_options=options)(arrays))
    except Exception:  # of a call that is refused when it is lowered, which each is now for itself
        return [outcome(*call) for call in calls]
    pairs = jax.tree.map(lambda x: next(computed) if isinstance(x, jax.core.Tracer) else x, pairs)
    unknown = jax.errors.JAXTypeError, jax.errors.JAXIndexError
    return [
        outcome(*call) if isinstance(pair[1], unknown) else pair
        for call, pair in zip(calls, pairs, strict=True)
    ]


def weakly(value: Any, shape: tuple[int, ...] = ()) -> jax.Array:
    """A weakly typed array of JAX."""
    return jax.lax.full(shape, value)


def sample(
    dtype: Any, shape: tuple[int, ...], seed: int = 0, low: float = -3.0, high: float = 3.0
) -> jax.Array:
    """Random numbers of a dtype, from a seed."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return jnp.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype.kind == "c":
        parts = rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
        return jnp.asarray(parts.astype(dtype))
    if dtype.kind in "iu" or dtype.name in ("int4", "uint4"):
        least = 0 if dtype.kind == "u" or dtype.name == "uint4" else int(low)
        return jnp.asarray(rng.integers(least, int(high) + 1, shape).astype(dtype))
    return jnp.asarray(rng.uniform(low, high, shape).astype(dtype))
