"""The stages of a compiled function, with the types of its arguments and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, explicit_sharding, map_text, shaped_array
from gnomon._arrays.dtypes import ExtendedDType, canonicalize_dtype
from gnomon._arrays.extended import ExtendedArray
from gnomon._sharding.device import Device
from gnomon._sharding.device_group import place_of_devices
from gnomon._sharding.mesh import AbstractMesh
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import resolved
from gnomon._tracing.function import Traced
from gnomon.dialects.symbolic.dimension import is_symbolic_dim

CompilerOptions = dict[str, str | bool]


class ShapeDtypeStruct:
    """A substitute for an array where only its type matters.

    That of an array of random keys is a `KeyArray` whose words are substitutes, like the result of
    `eval_shape`.

    Attributes:
      shape, dtype, weak_type: those of the array.
      sharding: the sharding of the array, or None.
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __new__(cls, shape: Sequence[int], dtype: Any, **options: Any) -> Any:
        if isinstance(dtype, ExtendedDType):
            return dtype.of_parts(lambda part: cls(shape, part, **options))
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.shape, self.dtype

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False, sharding: Any = None
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be given")
        if isinstance(sharding, PartitionSpec):
            sharding = resolved(sharding, "ShapeDtypeStruct")
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise ValueError(
                "ShapeDtypeStruct: sharding must be None, a gnomon.sharding.Sharding, or a "
                f"gnomon.P of the mesh that is set, got {sharding!r}"
            )
        self.sharding = sharding
        self.shape = tuple(d if is_symbolic_dim(d) else int(d) for d in shape)
        self.dtype = np.dtype(dtype)
        self.weak_type = weak_type

    @classmethod
    def like(cls, x: Any) -> Any:
        """The type of an array, with its sharding if the array is committed."""
        placed = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        if isinstance(x, ExtendedArray):
            return cls(x.shape, x.dtype, sharding=placed)
        aval = aval_of(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=placed)

    def update(self, **changes: Any) -> Any:
        """The same type with other attributes, which are named."""
        now = {name: getattr(self, name) for name in ("shape", "dtype", "weak_type", "sharding")}
        return ShapeDtypeStruct(**(now | changes))

    @property
    def aval(self) -> ShapedArray:
        """The interned type."""
        explicit = explicit_sharding(self.sharding, len(self.shape))
        return shaped_array(self.shape, self.dtype, self.weak_type, sharding=explicit)

    @property
    def committed_to(self) -> Device | None:
        """The device that the array is committed to, if any."""
        if self.sharding is None or isinstance(getattr(self.sharding, "mesh", None), AbstractMesh):
            return None
        return place_of_devices(self.sharding._device_tuple)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ShapeDtypeStruct)
            and self.aval is other.aval
            and self.sharding == other.sharding
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        place = "" if self.sharding is None else f", sharding={self.sharding}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{place}{weak})"


def aval_of(leaf: Any) -> ShapedArray:
    """The type of an argument: an array, or anything that has a shape and a dtype."""
    if isinstance(leaf, ShapeDtypeStruct):
        return leaf.aval
    if isinstance(leaf, (Array, np.ndarray, np.generic)) or not (
        hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    ):
        return as_operand(leaf).aval
    dtype = canonicalize_dtype(np.dtype(leaf.dtype))
    return shaped_array(tuple(leaf.shape), dtype, getattr(leaf, "weak_type", False))


@dataclass(frozen=True, slots=True)
class ArgInfo:
    """An argument of a lowered function.

    Attributes:
      donated: whether the call may take over its memory.
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._aval.dtype


class ProgramText:
    """A traced function as IR; prints as MLIR.

    Attributes:
      out_tree: the pytree of the results.
      consts: arrays that the function closes over; the program takes them after the traced
        arguments.
    """

    def __init__(self, text: str, out_tree: Any, consts: list[Array]) -> None:
        self._text = text
        self.out_tree = out_tree
        self.consts = consts

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class Stage:
    """A stage of a function that is compiled ahead of time.

    Attributes:
      args_info: an `ArgInfo` for each leaf, in the structure of the call: a tuple of the positional
        arguments and a dict of the keyword arguments, without the static ones.
      in_tree: the structure of ``args_info``.
      out_tree: the structure of the results.
    """

    def __init__(self, call: Any, traced: Traced) -> None:
        self._call = call
        self._traced = traced

    def __deepcopy__(self, memo: dict[int, Any]) -> Stage:
        return self  # It does not change.

    def __repr__(self) -> str:
        kind = type(self).__name__.removesuffix("Function")
        types = map_text(map(aval_of, self._call.leaves), self._traced.avals)
        return f"<{kind} jit of {self._traced.name}: {types}>"

    @property
    def in_tree(self) -> Any:
        return self._call.tree

    @property
    def out_tree(self) -> Any:
        return self._traced.tree

    @property
    def args_info(self) -> Any:
        donated = set(self._call.donated)
        infos = [ArgInfo(aval_of(leaf), i in donated) for i, leaf in enumerate(self._call.leaves)]
        return tree_util.tree_unflatten(self.in_tree, infos)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, in the structure of the call."""
        return tree_util.tree_map(lambda info: info._aval, self.args_info)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The positions of the donated leaves."""
        return tuple(self._call.donated)

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the results."""
        structs = [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=a.explicit)
            for a in self._traced.avals
        ]
        return tree_util.tree_unflatten(self._traced.tree, structs)


class TracedFunction(Stage):
    """A function traced for arguments of given types, ready to be lowered.

    Attributes:
      fun_name: the function's name.
    """

    def __init__(
        self, call: Any, traced: Traced, fun_name: str, lower: Callable[[str | None], Any]
    ) -> None:
        super().__init__(call, traced)
        self._lower = lower
        self._lowered: dict[str | None, Any] = {}
        self.fun_name = fun_name

    @property
    def jaxpr(self) -> ProgramText:
        """The program in the gnomon dialect, with transformations as ops; the name is JAX's."""
        return ProgramText(self.lower().as_text("traced"), self._traced.tree, self._traced.captures)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Any:
        """Lower to StableHLO.

        Args:
          lowering_platforms: one platform, such as ``("cuda",)``, for whose first device the
            program is compiled; by default, it is compiled for the device of the arguments, or else
            for the default device.

        Raises:
          BackendUnavailable: there is no device of the platform.
          NotImplementedError: there are several platforms; `gnomon.export` takes several.
        """
        if isinstance(lowering_platforms, str):
            raise TypeError(f"lower takes a sequence of platforms, got {lowering_platforms!r}")
        platforms = tuple(lowering_platforms or ())
        if len(platforms) > 1:
            raise NotImplementedError(
                f"lower: a program is lowered for one platform, got {platforms!r}; gnomon.export "
                "exports a function for several"
            )
        platform = platforms[0] if platforms else None
        if platform not in self._lowered:
            self._lowered[platform] = self._lower(platform)
        return self._lowered[platform]


@runtime_checkable
class Wrapped(Protocol):
    """A function that can be traced, lowered and compiled; `jit` returns one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, compiled for these arguments."""

    def trace(self, *args: Any, **kwargs: Any) -> TracedFunction:
        """Trace the function for arguments of these types."""

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Trace and lower the function for arguments of these types."""


__all__ = [
    "ArgInfo",
    "CompilerOptions",
    "ProgramText",
    "ShapeDtypeStruct",
    "Stage",
    "TracedFunction",
    "Wrapped",
    "aval_of",
]
