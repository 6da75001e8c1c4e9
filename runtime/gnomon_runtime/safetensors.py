"""Files of safetensors: a length, a header in JSON, and the bytes of the arrays.

The length has 8 bytes, little-endian. The header maps each name to a dtype, a shape, and the
offsets of its first byte and of the one after its last, counted from the end of the header.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from gnomon_runtime.booleans import zero_or_one
from gnomon_runtime.errors import CheckpointError
from gnomon_runtime.writing import write_file

__all__ = ["read_safetensors", "write_safetensors"]

_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000
_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    "C64": np.dtype("<c8"),
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises:
      CheckpointError: the file is damaged, or has a dtype that is not supported.
    """
    data = Path(path).read_bytes()
    if len(data) < _LENGTH.size:
        raise CheckpointError(f"{path}: the file is too short for safetensors")
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    if length > _MAX_HEADER_BYTES or start > len(data):
        raise CheckpointError(f"{path}: the header of {length} bytes is longer than the file")
    try:
        header = json.loads(data[_LENGTH.size : start])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _read(path, name, entry, data[start:]) for name, entry in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: the header is damaged: {error}") from error


def _read(path: str | os.PathLike[str], name: str, entry: Any, body: bytes) -> np.ndarray:
    kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in _DTYPES:
        raise CheckpointError(f"{path}: {name} has the dtype {kind}, which is not supported")
    if not all(isinstance(n, int) and n >= 0 for n in (*shape, first, last)):
        raise CheckpointError(f"{path}: {name} has a shape or an offset that is not a size")
    dtype = np.dtype(_DTYPES[kind])
    size = dtype.itemsize
    for n in shape:
        size *= n
    if not (last - first == size and last <= len(body)):
        raise CheckpointError(
            f"{path}: {name} of {kind}{shape} has bytes {first} to {last} of {len(body)}"
        )
    return zero_or_one(np.frombuffer(body[first:last], dtype).reshape(shape))


def write_safetensors(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name.

    Raises:
      CheckpointError: the format has no such dtype.
    """
    header: dict[str, Any] = {}
    bodies = []
    offset = 0
    # The widest elements come first, so that each array is aligned to the size of its elements.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        kind = _NAMES.get(array.dtype.newbyteorder("<"))
        if kind is None:
            raise CheckpointError(f"{path}: safetensors has no dtype for {name}: {array.dtype}")
        body = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(body)],
        }
        offset += len(body)
        bodies.append(body)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, (_LENGTH.pack(len(text)), text, *bodies))
