"""Python functions called by programs: `pure_callback`, `io_callback`, and those of `gnomon.debug`.

Outside of any trace the function is called at once. Under a transformation the call becomes an op,
and the program keeps a `Callback`, which the op calls on the host when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import placed, wrap
from gnomon._arrays.sharded import ShardedArray
from gnomon._compilation.jit import jit
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.bind import as_operand, trace_for, with_weak_type
from gnomon._tracing.evaluation import check_execution
from gnomon._tracing.function import check_callable
from gnomon._tracing.on_device import place_of
from gnomon._tracing.partitioned import resharded
from gnomon._tracing.stack import outside_of_traces
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.callbacks import VMAP_METHODS, Callback, call_back
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops
from gnomon.dialects.types import TensorType

__all__ = ["call_for_effects", "io_callback", "pure_callback"]


class _Call:
    """A call with its arguments: arrays become operands of the op, other leaves stay in Python."""

    def __init__(self, callback: Callable[..., Any], args: Any, kwargs: Any, what: str) -> None:
        self.callback = callback
        self.what = what
        leaves, self.tree = tree_util.tree_flatten((args, kwargs))
        self.is_array = [_is_array(leaf) for leaf in leaves]
        self.arrays = [
            as_operand(x) for x, is_array in zip(leaves, self.is_array, strict=True) if is_array
        ]
        self.others = [x for x, is_array in zip(leaves, self.is_array, strict=True) if not is_array]

    def run(self, *arrays: np.ndarray[Any, Any]) -> Any:
        """Call the function with the values of its arrays, outside of any trace of this thread."""
        values, others = iter(arrays), iter(self.others)
        leaves = [wrap(next(values)) if is_array else next(others) for is_array in self.is_array]
        args, kwargs = tree_util.tree_unflatten(self.tree, leaves)
        # Programs run with NumPy's warnings off; the user's function has them as usual.
        with (
            outside_of_traces(),
            np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        ):
            return self.callback(*args, **kwargs)


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (Array, np.ndarray, np.generic)):
        return True
    return _dtypes.is_python_scalar(leaf)


def _bind(
    op: Op,
    call: _Call,
    function: Callable[..., Sequence[Any]],
    given: Sequence[TensorType] | None,
    params: dict[str, Any],
) -> list[Any]:
    """Call a function at once, or add the call to the program that is being traced."""
    callback = Callback(function)
    trace = trace_for(call.arrays)
    if trace is None:
        check_execution(call.what)
        place = place_of(call.arrays, op.full_name.removeprefix("gnomon."))
        if not all(getattr(x, "is_fully_addressable", True) for x in call.arrays):
            return _call_across_processes(op, call, function, given, params)
        arrays = [concrete_value(x) for x in call.arrays]
        results = call_back(callback.number, given or (), arrays)  # type: ignore[arg-type]
        if place is None:
            return [wrap(r) for r in results]
        whole = next((_whole(x) for x in call.arrays if isinstance(x, ShardedArray)), None)
        if whole is not None:
            return [resharded(wrap(r), whole) for r in results]
        device, committed = place
        return [placed(np.asarray(r), device, committed=committed) for r in results]
    trace.program.callbacks.append(callback)
    params = {**params, "callback": callback.number}
    if given is not None:
        params["given"] = tuple(given)
    # The program keeps the callback, which therefore must not refer to values of the trace.
    operands, call.arrays = call.arrays, []
    return [with_weak_type(r, False) for r in trace.bind(op, operands, params)]


def _whole(x: ShardedArray) -> NamedSharding:
    """The sharding with the whole value on each device of an array."""
    return NamedSharding(x._sharding.mesh, PartitionSpec())


def _call_across_processes(
    op: Op,
    call: _Call,
    function: Callable[..., Sequence[Any]],
    given: Sequence[TensorType] | None,
    params: dict[str, Any],
) -> list[Any]:
    """Call a function on arrays of several processes, in the process of the first device."""
    arrays = [resharded(x, _whole(x)) if isinstance(x, ShardedArray) else x for x in call.arrays]

    def program(*traced: Any) -> list[Any]:
        call.arrays = list(traced)
        return _bind(op, call, function, given, params)

    results: list[Any] = jit(program)(*arrays)
    return results


def _declared_results(result_shape_dtypes: Any, what: str) -> tuple[list[TensorType], Any]:
    """The types and the structure of the results, as the caller promises them."""
    leaves, tree = tree_util.tree_flatten(result_shape_dtypes)
    types = []
    for leaf in leaves:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise AttributeError(
                f"{what}: result_shape_dtypes must be a pytree of objects with shape and dtype "
                f"(gnomon.ShapeDtypeStruct, arrays), got {leaf!r} of type {type(leaf).__name__}"
            )
        dtype = np.dtype(leaf.dtype)
        if _dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f"{what}: result_shape_dtypes cannot specify 64-bit types when enable_x64 is off, "
                f"got {dtype}"
            )
        types.append(TensorType(tuple(leaf.shape), dtype))
    return types, tree


def _results_of(call: _Call, tree: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    leaves, returned = tree_util.tree_flatten(call.run(*arrays))
    if returned != tree:
        raise RuntimeError(
            f"{call.what}: the function returned {returned} where result_shape_dtypes promised "
            f"{tree}"
        )
    return [_canonical(leaf) for leaf in leaves]


def _canonical(value: Any) -> np.ndarray[Any, Any]:
    array = value.numpy_value() if isinstance(value, Array) else np.asarray(value)
    return array.astype(_dtypes.canonicalize_dtype(array.dtype), copy=False)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects, also from traced and compiled programs.

    The function may be called any number of times, or not at all if its results are not used.

    Args:
      callback: a function of ``args`` and ``kwargs``, whose arrays it gets as concrete `Array`s;
        it returns a pytree of arrays.
      result_shape_dtypes: the structure, shapes and dtypes of the results: a pytree of objects with
        ``shape`` and ``dtype``.
      args, kwargs: pytrees of arrays; other leaves are passed unchanged.
      sharding: must be None.
      vmap_method: how `vmap` calls the function. ``"sequential"`` calls it for one element after
        another in a loop, ``"sequential_unrolled"`` without a loop. The other methods call it once,
        with a leading batch dimension: ``"expand_dims"`` gives arguments that are not mapped a
        leading dimension of size 1, ``"broadcast_all"`` one of the size of the batch, and
        ``"legacy_vectorized"`` none. With None, the call cannot be mapped.
    Returns:
      The results of the function.
    Raises:
      RuntimeError: the function returns other shapes or dtypes. Errors that the function itself
        raises reach the caller of the compiled function unchanged.
      ValueError: the call is differentiated; wrap it in a ``custom_jvp`` with a derivative.
      NotImplementedError: the call is mapped by `vmap`, and ``vmap_method`` is None.

    Example:
      >>> import numpy as np, gnomon as gn
      >>> def f(x):
      ...     return gn.pure_callback(np.sinc, gn.ShapeDtypeStruct(x.shape, x.dtype), x)
      >>> gn.jit(f)(gn.numpy.zeros(2))
      Array([1., 1.], dtype=float32)
    """
    check_callable(callback, "pure_callback")
    _no_sharding(sharding, "pure_callback")
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be one of the allowed methods {[*VMAP_METHODS, None]}, but got: "
            f"{vmap_method}"
        )
    given, tree = _declared_results(result_shape_dtypes, "pure_callback")
    call = _Call(callback, args, kwargs, "pure_callback")
    results = _bind(
        ops.pure_callback,
        call,
        lambda *arrays: _results_of(call, tree, arrays),
        given,
        {"vmap_method": vmap_method or ""},
    )
    return tree_util.tree_unflatten(tree, results)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that may have side effects, also from traced and compiled programs.

    The function is called exactly as often as the program says, in the program's order, even if its
    results are not used.

    Args:
      callback: a function of ``args`` and ``kwargs``, whose arrays it gets as concrete `Array`s;
        it returns a pytree of arrays.
      result_shape_dtypes: the structure, shapes and dtypes of the results: a pytree of objects with
        ``shape`` and ``dtype``, or None for a function that returns None.
      args, kwargs: pytrees of arrays; other leaves are passed unchanged.
      sharding: must be None.
      ordered: the call keeps its place among the other ordered calls; such a call cannot be mapped
        by `vmap`.
    Returns:
      The results of the function.
    Raises:
      RuntimeError: the function returns other shapes or dtypes.
      ValueError: the call is differentiated, or it is ordered and mapped.

    Example:
      >>> import numpy as np, gnomon as gn
      >>> from gnomon.experimental import io_callback
      >>> rng = np.random.default_rng(0)
      >>> two = gn.ShapeDtypeStruct((2,), np.int32)
      >>> draw = gn.jit(lambda: io_callback(lambda: rng.integers(10, size=2, dtype=np.int32), two))
      >>> print(draw(), draw())
      [8 6] [5 2]
    """
    check_callable(callback, "io_callback")
    _no_sharding(sharding, "io_callback")
    given, tree = _declared_results(result_shape_dtypes, "io_callback")
    call = _Call(callback, args, kwargs, "io_callback")
    results = _bind(
        ops.io_callback,
        call,
        lambda *arrays: _results_of(call, tree, arrays),
        given,
        {"ordered": bool(ordered)},
    )
    return tree_util.tree_unflatten(tree, results)


def call_for_effects(
    callback: Callable[..., Any], args: Any, kwargs: Any, ordered: bool, what: str
) -> None:
    """Call a function whenever the program reaches this place, and drop its results."""
    call = _Call(callback, args, kwargs, what)

    def function(*arrays: np.ndarray[Any, Any]) -> tuple[()]:
        call.run(*arrays)
        return ()

    _bind(ops.debug_callback, call, function, None, {"ordered": bool(ordered)})


def _no_sharding(sharding: Any, what: str) -> None:
    if sharding is not None:
        raise NotImplementedError(
            f"{what}: callbacks run in this process, so sharding is not supported; omit it"
        )
