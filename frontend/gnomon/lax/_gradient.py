"""`stop_gradient`."""

from __future__ import annotations

from typing import Any

from gnomon import tree_util
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_inexact
from gnomon.lax._operands import argument


def _stop(x: Any) -> Any:
    array = argument("stop_gradient", x)
    # Integers and bools have no tangents and are returned unchanged.
    return bind(ops.stop_gradient, array) if is_inexact(array.dtype) else x


def stop_gradient(x: Any) -> Any:
    """The identity with a derivative of zero.

    Args:
      x: an array or a pytree of arrays.
    Returns:
      The same value; its tangent is zero.
    Raises:
      TypeError: a leaf is not an array.

    Example:
      >>> import gnomon
      >>> print(gnomon.grad(lambda x: x * gnomon.lax.stop_gradient(x))(3.0))
      3.0
    """
    return tree_util.tree_map(_stop, x)
