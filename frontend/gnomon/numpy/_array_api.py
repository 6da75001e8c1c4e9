"""The inspection functions of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._api.devices import devices
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.dtypes import isdtype
from gnomon._sharding.device import Device

# The version of the standard that defines these functions and signatures.
VERSION = "2024.12"

_NAMED = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


class ArrayNamespaceInfo:
    """The capabilities of the library, its dtypes and its devices.

    Definition: ``__array_namespace_info__`` of the array API standard, 2024.12.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.__array_namespace_info__().default_dtypes()["real floating"]
      dtype('float32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Support for boolean indexing and data-dependent shapes, and the maximum rank."""
        # The capabilities inside traced programs; both work outside of them.
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }

    def default_device(self) -> None:
        """None, which means the device that `gnomon.default_device` sets."""

    def devices(self) -> list[Device | None]:
        """The default device, which is None, and the devices of the default platform."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays that are made without a dtype."""
        return {
            "real floating": _dtypes.default_float_dtype(),
            "complex floating": _dtypes.default_complex_dtype(),
            "integral": _dtypes.default_int_dtype(),
            "indexing": _dtypes.default_int_dtype(),
        }

    def dtypes(self, *, device: Device | None = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of the standard; int64, uint64, float64 and complex128 only with x64.

        Args:
          device: ignored, since all devices support the same dtypes.
          kind: one or several kinds, as in `gnomon.numpy.isdtype`; None means all.
        """
        named = {name: np.dtype(name) for name in _NAMED}
        return {
            name: dtype
            for name, dtype in named.items()
            if _dtypes.canonicalize_dtype(dtype) == dtype and (kind is None or isdtype(dtype, kind))
        }


def check_version(api_version: str | None) -> None:
    """Check that a version of the standard is supported.

    Raises:
      ValueError: the version is not `VERSION`.
    """
    if api_version not in (None, VERSION):
        raise ValueError(
            f"api_version={api_version!r} of the array API is not supported; use {VERSION!r}"
        )
