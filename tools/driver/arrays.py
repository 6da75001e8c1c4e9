"""Arrays on the command line and in files: inputs, outputs, and expected results.

--input x.npy                   the next argument
--input weights.npz             arguments by name, or the next ones in order
--input w=weights.npy           the argument of a given name
--input 'f32[2,3]=1,2,3,4,5,6'  values, or one value for all elements; the type may be omitted
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.types import TensorType, is_complex, is_inexact, real_dtype
from gnomon.tools.driver.errors import ComparisonError, DriverError, UsageError
from gnomon.tools.driver.programs import Leaf
from gnomon.tools.driver.safetensors import read_safetensors, write_safetensors
from gnomon.tools.driver.specifications import DTYPES
from gnomon_runtime.booleans import zero_or_one
from gnomon_runtime.writing import write_file

__all__ = ["Difference", "compare", "read_arrays", "read_inputs", "write_arrays"]

_SUFFIXES = (".npy", ".npz", ".safetensors")
_TYPED = re.compile(r"([a-z]\w*)(?:\[([\d, ]*)\])?=(.*)", re.DOTALL)
# The default tolerance, in units of the resolution of the dtype.
_RESOLUTIONS = 100.0


# ------------------------------------------------------------------------------------------- files


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file by name; the name of the array in a ``.npy`` file is empty.

    Raises:
      DriverError: the file does not exist, has another format, or is damaged.
    """
    if not Path(path).is_file():
        raise DriverError(f"there is no file {path!r}")
    if path.endswith(".safetensors"):
        return read_safetensors(path)
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {"": zero_or_one(found)}
        with found:
            return {name: zero_or_one(found[name]) for name in found.files}
    except (EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DriverError(f"{path}: {error}") from error


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, in the format of the path's suffix.

    Raises:
      UsageError: the suffix is unknown, or there are several arrays for a ``.npy`` file.
      DriverError: safetensors has no such dtype.
    """
    if path.endswith(".safetensors"):
        write_safetensors(path, arrays)
    elif path.endswith(".npz"):
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        write_file(path, [file.getbuffer()])
    elif path.endswith(".npy"):
        if len(arrays) != 1:
            raise UsageError(
                f"--output {path}: a .npy file holds one array and there are {len(arrays)} "
                f"({', '.join(arrays)}); write .npz or .safetensors"
            )
        file = io.BytesIO()
        np.save(file, next(iter(arrays.values())), allow_pickle=False)
        write_file(path, [file.getbuffer()])
    else:
        raise UsageError(f"--output {path}: the suffix must be one of {', '.join(_SUFFIXES)}")


# ------------------------------------------------------------------------------------------ inputs


def read_inputs(texts: Sequence[str], leaves: Sequence[Leaf]) -> dict[int, np.ndarray]:
    """The arrays of the options ``--input``, by the position of the argument.

    Raises:
      UsageError: an option does not fit the arguments.
    """
    by_name = {leaf.name: i for i, leaf in enumerate(leaves)}
    found: dict[int, np.ndarray] = {}

    def assign(text: str, position: int | None, value: Any) -> None:
        if position is None:
            position = next((i for i in range(len(leaves)) if i not in found), None)
        if position is None:
            raise UsageError(f"--input {text}: there are only {len(leaves)} arguments")
        leaf = leaves[position]
        found[position] = _fitted(value, leaf) if callable(value) else _checked(text, value, leaf)

    for text in texts:
        name, equals, rest = text.partition("=")
        position = by_name.get(name) if equals else None
        value = rest if position is not None else text
        if value.endswith(_SUFFIXES):
            arrays = read_arrays(value)
            for key, array in arrays.items():
                if position is not None and len(arrays) > 1:
                    raise UsageError(
                        f"--input {text}: the file must have one array, got {len(arrays)}"
                    )
                assign(text, by_name.get(key) if position is None else position, array)
        else:
            assign(text, position, lambda leaf, t=text, v=value: _parsed(t, v, leaf))
    return found


def _fitted(make: Any, leaf: Leaf) -> np.ndarray:
    array: np.ndarray = make(leaf)
    return array


def _parsed(text: str, values: str, leaf: Leaf) -> np.ndarray:
    """The values of an option; one value fills the array."""
    given = _TYPED.fullmatch(values)
    if given is not None:
        dtype, dims, values = given[1], given[2] or "", given[3]
        if dtype not in DTYPES:
            raise UsageError(
                f"--input {text}: {dtype!r} is neither a dtype nor an argument of the program"
            )
        type_ = TensorType(tuple(int(n) for n in re.findall(r"\d+", dims)), DTYPES[dtype])
        if not _fits(type_.shape, type_.dtype, leaf):
            raise UsageError(f"--input {text}: the program takes {leaf.type} as {leaf.name}")
        leaf = leaf._replace(type=type_)
    if is_sized_by_calls(leaf):
        raise UsageError(
            f"--input {text}: {leaf.name} is {leaf.type}; give its sizes, as in "
            f"{given_type(leaf)}=0, or a file"
        )
    shape, dtype = leaf.type
    number = complex if is_complex(dtype) else float if is_inexact(dtype) else int
    try:
        numbers = [number(v) for v in values.split(",") if v.strip()]
        flat = np.array(numbers).astype(dtype)
        if number is int and flat.tolist() != numbers:
            raise UsageError(
                f"--input {text}: {leaf.name} is {leaf.type}, which holds other numbers"
            )
    except (OverflowError, ValueError):
        raise UsageError(
            f"--input {text}: neither a file ({', '.join(_SUFFIXES)}) nor values of {leaf.type} "
            f"for {leaf.name}"
        ) from None
    if flat.size not in (1, leaf.type.size):
        raise UsageError(f"--input {text}: {flat.size} values for {leaf.name}, {leaf.type}")
    full = np.broadcast_to(flat[0], shape) if flat.size == 1 else flat.reshape(shape)
    return np.ascontiguousarray(full).reshape(shape)


def _checked(text: str, array: np.ndarray, leaf: Leaf) -> np.ndarray:
    """Check that an array from a file has the type that the program takes."""
    dtype = leaf.type.dtype
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        # NumPy's files keep the bytes of dtypes such as bfloat16, but not their names.
        array = array.view(dtype)
    if not _fits(array.shape, array.dtype.newbyteorder("="), leaf):
        got = f"{array.dtype}{list(array.shape)}"
        raise UsageError(f"--input {text}: the program takes {leaf.type} as {leaf.name}, got {got}")
    return np.ascontiguousarray(array, dtype).reshape(array.shape)


def is_sized_by_calls(leaf: Leaf) -> bool:
    """Whether the array has symbolic dimensions, whose sizes calls determine."""
    shape: tuple[Any, ...] = leaf.type.shape
    return any(not isinstance(n, int) for n in shape)


def given_type(leaf: Leaf) -> str:
    """The type of an array, with 1 for its symbolic dimensions."""
    shape: tuple[Any, ...] = leaf.type.shape
    sizes = tuple(n if isinstance(n, int) else 1 for n in shape)
    return str(leaf.type.with_shape(sizes))


def _fits(shape: tuple[int, ...], dtype: np.dtype, leaf: Leaf) -> bool:
    """Whether an array has the type that the program takes; symbolic dimensions fit any size."""
    expected: tuple[Any, ...] = leaf.type.shape
    return (
        dtype == leaf.type.dtype
        and len(shape) == len(expected)
        and all(m == n or not isinstance(n, int) for m, n in zip(shape, expected, strict=True))
    )


# -------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Difference:
    """The difference between a result and the expected array.

    Attributes:
      name: the name of the result.
      count, size: the number of elements beyond the tolerance, and of all elements.
      index: the index of the element with the largest difference.
      got, expected: the two values of that element.
      largest: the largest difference.
      reason: another difference, such as of the shape; the other attributes are then unset.
    """

    name: str
    count: int = 0
    size: int = 0
    index: tuple[int, ...] = ()
    got: Any = None
    expected: Any = None
    largest: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.reason}"
        at = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return (
            f"{self.name}: {self.count} of {self.size} elements differ, by {self.largest:.3g} at "
            f"most: {self.name}{at} is {self.got}, expected {self.expected}"
        )


def compare(
    results: Mapping[str, np.ndarray],
    path: str,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[Difference]:
    """The differences between results and the arrays of a file; empty if there are none.

    Args:
      results: the results, by name.
      path: the file, with the same names or the same number of arrays.
      rtol, atol: the relative and absolute tolerance; by default, each is a hundred times the
        resolution of the dtype, and zero for integers.

    Raises:
      ComparisonError: the file has another number of arrays.
    """
    expected = read_arrays(path)
    if set(expected) != set(results):
        if len(expected) != len(results):
            raise ComparisonError(
                f"{path} has {len(expected)} arrays ({', '.join(expected)}), but the program "
                f"returns {len(results)} ({', '.join(results)})"
            )
        expected = dict(zip(results, expected.values(), strict=True))
    found = (_difference(name, results[name], expected[name], rtol, atol) for name in results)
    return [difference for difference in found if difference is not None]


def _difference(
    name: str, got: np.ndarray, expected: np.ndarray, rtol: float | None, atol: float | None
) -> Difference | None:
    if expected.dtype.kind == "V" and expected.dtype.itemsize == got.dtype.itemsize:
        expected = expected.view(got.dtype)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        reason = (
            f"it is {TensorType(got.shape, got.dtype)}, expected {expected.dtype}"
            f"{list(expected.shape)}"
        )
        return Difference(name, reason=reason)
    default = 0.0
    if is_inexact(got.dtype):
        default = _RESOLUTIONS * float(ml_dtypes.finfo(real_dtype(got.dtype)).eps)
    wide: Any = np.complex128 if is_complex(got.dtype) else np.float64
    if not is_inexact(got.dtype):
        wide = object  # Python's integers hold 64-bit integers exactly
    a, b = got.astype(wide), expected.astype(wide)
    relative = default if rtol is None else rtol
    absolute = default if atol is None else atol
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(a - b)
        near = a == b
        if is_inexact(got.dtype):
            # An infinity is near only to itself, regardless of the tolerance.
            near |= np.isfinite(b) & (distance <= absolute + relative * np.abs(b))
            near |= np.isnan(a) & np.isnan(b)
        else:
            near |= distance <= absolute + relative * np.abs(b)
    far = ~near.astype(bool)
    if not far.any():
        return None
    # A nan on one side only counts as the largest distance.
    ranked = np.where(far, np.nan_to_num(distance.astype(float), nan=np.inf), -1.0)
    worst = tuple(int(i) for i in np.unravel_index(int(ranked.argmax()), ranked.shape))
    return Difference(
        name, int(far.sum()), got.size, worst, got[worst], expected[worst], float(ranked.max())
    )
