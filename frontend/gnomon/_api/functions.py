"""Functions that inspect traced functions and wait for results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from gnomon import tree_util
from gnomon._arrays.annotations import ArrayLike
from gnomon._compilation.jit import jit
from gnomon._compilation.jit_function import JitFunction
from gnomon._compilation.stages import ProgramText, ShapeDtypeStruct
from gnomon._diagnostics.source_location import named_scope
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import check_callable, name_of, with_metadata
from gnomon._transformations.vmap import vmap

P = ParamSpec("P")
R = TypeVar("R")


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | tuple[int, ...] = (),
    return_shape: bool = False,
    axis_env: Sequence[tuple[str, int]] | None = None,
) -> Callable[..., Any]:
    """A function that returns the traced program of ``fun`` instead of running it.

    The program is in the gnomon dialect; transformations are ops in it. (The name is JAX's.)

    Args:
      fun: the function.
      static_argnums: the positions of arguments that are passed as plain Python values.
      return_shape: return a pair of the program and a pytree with the types of the results.
      axis_env: pairs of names and sizes of axes for collectives (`lax.psum`); the program maps
        ``fun`` over them, and its results have one leading dimension for each.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> print(gn.make_jaxpr(gnp.sin)(1.0))
      module @sin {
        func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
          %0 = "gnomon.sin"(%arg0) : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
      }
      <BLANKLINE>
    """
    check_callable(fun, "make_jaxpr")
    mapped = fun
    for axis_name, size in reversed(axis_env or ()):
        mapped = vmap(mapped, in_axes=None, axis_name=axis_name, axis_size=size)
    staged = jit(mapped, static_argnums=static_argnums)
    levels = len(axis_env or ())

    def make(*args: Any, **kwargs: Any) -> Any:
        stage = staged.trace(*args, **kwargs)
        traced = stage._traced
        program = traced.program
        program.add("main", traced.body, public=True)
        program.rename(name_of(fun))
        result = ProgramText(str(program.module), traced.tree, traced.captures)
        return (result, _unmapped(stage.out_info, levels)) if return_shape else result

    result: Callable[..., Any] = with_metadata(make, fun)
    return result


def _unmapped(out_info: Any, levels: int) -> Any:
    """The types of results without their leading dimensions, one for each level."""
    return tree_util.tree_map(
        lambda s: ShapeDtypeStruct(s.shape[levels:], s.dtype, weak_type=s.weak_type), out_info
    )


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of the results of ``fun``, without computing the results.

    Args:
      fun: the function.
      args, kwargs: arrays, or anything with ``shape`` and ``dtype`` (`ShapeDtypeStruct`).
    Returns:
      The pytree of the results with a `ShapeDtypeStruct` for each array.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> gn.eval_shape(gnp.sum, gn.ShapeDtypeStruct((2, 3), gnp.int8))
      ShapeDtypeStruct(shape=(), dtype=int32)
    """
    check_callable(fun, "eval_shape")
    staged = fun if isinstance(fun, JitFunction) else jit(fun)
    return staged.eval_shape(*args, **kwargs)


def typeof(x: ArrayLike | ShapeDtypeStruct) -> Any:
    """The type of an array or a Python number: shape, dtype, weak type.

    Args:
      x: an array, a scalar, or a `ShapeDtypeStruct`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> print(gn.typeof(gnp.ones((2, 3))))
      float32[2,3]
      >>> print(gn.typeof(3.0))
      float32[]
    """
    return x.aval if isinstance(x, ShapeDtypeStruct) else as_operand(x).aval


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """Make a function whose ops are named after it; see `named_scope`.

    Args:
      fun: the function.
      name: the name; by default the name of ``fun``.

    Example:
      >>> import gnomon as gn
      >>> double = gn.named_call(lambda x: 2 * x, name="double")
      >>> double(3)
      6
    """
    check_callable(fun, "named_call")
    return named_scope(name or name_of(fun))(fun)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed.

    Args:
      x: a pytree; leaves that are not arrays are ignored.
    Returns:
      The pytree itself.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.block_until_ready({"a": gnp.arange(2)})
      {'a': Array([0, 1], dtype=int32)}
    """
    for leaf in tree_util.tree_leaves(x):
        wait = getattr(leaf, "block_until_ready", None)
        if callable(wait):
            wait()
    return x


def effects_barrier() -> None:
    """Wait until the effects of all programs have happened.

    There is nothing to wait for: a program that calls Python returns only when it has finished.

    Example:
      >>> import gnomon as gn
      >>> gn.effects_barrier()
    """
