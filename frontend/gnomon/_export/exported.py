"""Exported functions, which can be called, differentiated and serialized."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._api.devices import device_put
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dtypes import float0
from gnomon._compilation.jit import jit
from gnomon._export.all_sizes import ForAllSizes
from gnomon._export.jax_writing import serialize_for_jax
from gnomon._export.portable import lowered
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.serialization import serialize
from gnomon._export.shardings import (
    HloSharding,
    calling_devices,
    hlo_sharding,
    on_devices,
    on_mesh,
)
from gnomon._export.sizes import Sizes
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import constrained
from gnomon._tracing.function import call_function, with_avals
from gnomon._tracing.stack import platform_of
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_vjp import custom_vjp
from gnomon._trees.prefixes import HOLE, difference_of_structures
from gnomon.backends.bytecode import read_bytecode
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo
from gnomon.dialects.refinement import refined
from gnomon.dialects.symbolic.dimension import SymbolicScope, is_symbolic_dim, substituted
from gnomon.dialects.types import TensorType

__all__ = ["CALLING_CONVENTION_VERSION", "Exported"]

CALLING_CONVENTION_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A function exported for given types and platforms.

    Attributes:
      fun_name: the function's name.
      in_tree: the structure of the pair of positional arguments and keyword arguments.
      in_avals: types of the leaves of the arguments; the program does not take ``float0`` leaves.
      out_tree: the structure of the results.
      out_avals: types of their leaves.
      platforms: the platforms that it was exported for.
      disabled_safety_checks: the checks that calls skip.
      donated: positions of the arguments whose memory a call takes over in a saved artifact.
      programs: the program in gnomon's dialect by platform, as text. It takes the inputs, then the
        arrays that the function closes over.
      closed_over: the arrays that the function closes over.
      nr_devices: the number of devices that the program is for.
      in_shardings, out_shardings: the shardings of the leaves of the arguments and of the results
        over an abstract mesh; None for a leaf without one.
      calling_convention_version: the version of the calling convention.
    """

    fun_name: str
    in_tree: tree_util.PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: tree_util.PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    donated: tuple[int, ...]
    programs: Mapping[str, str]
    closed_over: tuple[Array, ...]
    _get_vjp: Callable[[Exported], Exported] | None
    _portable: Mapping[str, bytes] | None = None
    # The names of the positional arguments; empty where they are not known.
    _parameters: tuple[str, ...] = ()
    # Reads the program of a platform for the types of its operands; None if `programs` has it.
    _read_for: Callable[[str, Sequence[TensorType]], Program] | None = None
    nr_devices: int = 1
    in_shardings: tuple[NamedSharding | None, ...] = ()
    out_shardings: tuple[NamedSharding | None, ...] = ()
    calling_convention_version: int = CALLING_CONVENTION_VERSION
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    uses_global_constants: bool = False

    def __post_init__(self) -> None:
        # The class is frozen, so fields are set as `dataclasses` does.
        for name, avals in (("in_shardings", self.in_avals), ("out_shardings", self.out_avals)):
            if not getattr(self, name):
                object.__setattr__(self, name, (None,) * len(avals))

    def __deepcopy__(self, memo: dict[int, Any]) -> Exported:
        return self  # It does not change.

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The inputs that the program takes: all that are not ``float0``."""
        return tuple(i for i, a in enumerate(self.in_avals) if a.dtype != float0)

    @property
    def in_shardings_hlo(self) -> tuple[HloSharding | None, ...]:
        """The shardings of the leaves of the arguments over numbered devices.

        Example:
          >>> import gnomon as gn
          >>> from gnomon import export, sharding
          >>> rows = sharding.NamedSharding(sharding.AbstractMesh((4,), ("a",)), gn.P("a"))
          >>> type_ = gn.ShapeDtypeStruct((8, 2), gn.numpy.float32, sharding=rows)
          >>> export.export(gn.jit(gn.numpy.sin))(type_).in_shardings_hlo
          ({devices=[4,1]<=[4]},)
        """
        pairs = zip(self.in_shardings, self.in_avals, strict=True)
        return tuple(hlo_sharding(s, len(a.shape)) for s, a in pairs)

    @property
    def out_shardings_hlo(self) -> tuple[HloSharding | None, ...]:
        """The shardings of the leaves of the results over numbered devices."""
        pairs = zip(self.out_shardings, self.out_avals, strict=True)
        return tuple(hlo_sharding(s, len(a.shape)) for s, a in pairs)

    def in_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """The shardings of the leaves of the arguments over a mesh; the name is JAX's.

        Args:
          mesh: a mesh of `nr_devices` devices. Its axes may differ from those of the export.
        Raises:
          ValueError: the mesh has another number of devices.
        """
        return on_mesh(self.in_shardings, mesh)

    def out_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """The shardings of the leaves of the results over a mesh; see `in_shardings_jax`."""
        return on_mesh(self.out_shardings, mesh)

    @property
    def is_symbolic(self) -> bool:
        """Whether arguments have symbolic dimensions."""
        return self.scope is not None

    @property
    def scope(self) -> SymbolicScope | None:
        """The scope of the symbolic dimensions of the arguments; None without any."""
        return self._sizes.scope

    @functools.cached_property
    def portable(self) -> Mapping[str, bytes]:
        """The program as a portable artifact of StableHLO, by platform.

        A function with symbolic dimensions is a program with dynamic dimensions, which checks the
        sizes of its arguments (``stablehlo.custom_call @shape_assertion``).

        Raises:
          LoweringError: an op with symbolic dimensions has no form in StableHLO.
        """
        if self._portable is not None:
            return self._portable
        found = {text: _portable_artifact(text) for text in dict.fromkeys(self.programs.values())}
        return {platform: found[text] for platform, text in self.programs.items()}

    @property
    def mlir_module_serialized(self) -> bytes:
        """The portable artifact for the first platform."""
        return self.portable[self.platforms[0]]

    def mlir_module(self) -> str:
        """The program for the first platform as text of StableHLO."""
        ensure_context()
        if self._portable is not None:
            # From a file, which may be damaged.
            return str(read_bytecode(self.mlir_module_serialized))
        return str(stablehlo.deserialize_portable_artifact(context(), self.mlir_module_serialized))

    def has_vjp(self) -> bool:
        """Whether `vjp` is available."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported function that computes cotangents.

        It takes the leaves of the arguments and a cotangent for each leaf of the results, and
        returns a tuple of a cotangent for each leaf of the arguments; those of integers are
        ``float0`` zeros.

        Raises:
          ValueError: the function was serialized without its VJP.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"the exported function {self.fun_name!r} has no VJP: it was serialized without "
                "one; pass vjp_order to serialize"
            )
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0, *, format: str = "gnomon") -> bytearray:
        """The function as bytes, which `deserialize` reads.

        Args:
          vjp_order: how many times the deserialized function can be differentiated.
          format: "gnomon" for an artifact, or "jax" for bytes that ``jax.export.deserialize`` reads
            too.

        Raises:
          ValueError: there is no such format, or JAX does not have a class of the structures.
          NotImplementedError: JAX has no form of the function: it is for several devices, or calls
            functions that only gnomon has.
        """
        if format not in ("gnomon", "jax"):
            raise ValueError(f"the format must be 'gnomon' or 'jax', got {format!r}")
        write = serialize if format == "gnomon" else serialize_for_jax
        return bytearray(write(self, vjp_order))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; it can be jitted, differentiated in reverse mode, and vectorized.

        Raises:
          ValueError: structure, shapes, dtypes, platform or the number of devices differ from those
            that the function was exported for.
        """
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(self._structure_error(tree))
        operands = [leaf if _is_float0(leaf) else as_operand(leaf) for leaf in leaves]
        self._check_types(operands)
        sizes = self._sizes([tuple(x.shape) for x in operands])
        kept = self._spread([operands[i] for i in self.module_kept_var_idx])
        found = self._for_all_sizes.call(kept, sizes) if self._for_all_sizes else None
        results = iter(self._function(*kept) if found is None else found)
        out = [
            np.zeros(_shape(a, sizes), float0) if a.dtype == float0 else next(results)
            for a in self.out_avals
        ]
        return tree_util.tree_unflatten(self.out_tree, out)

    @functools.cached_property
    def _for_all_sizes(self) -> ForAllSizes | None:
        """Runs calls on the CPU if the function has symbolic dimensions."""
        if not self.is_symbolic or self.nr_devices > 1 or "cpu" not in self.programs:
            return None
        results = [a for a in self.out_avals if a.dtype != float0]
        return ForAllSizes(self.fun_name, self.programs["cpu"], results, self.closed_over)

    def _spread(self, operands: list[Any]) -> list[Any]:
        """The program's operands, moved to the exported shardings over the devices of the call."""
        if self.nr_devices == 1 or any(map(is_tracer, operands)):
            return operands  # In a trace, `_run` adds sharding constraints.
        devices = calling_devices(operands, self.nr_devices, self.fun_name)
        shardings = [self.in_shardings[i] for i in self.module_kept_var_idx]
        return [
            x if s is None else device_put(x, on_devices(s, devices))
            for x, s in zip(operands, shardings, strict=True)
        ]

    def _structure_error(self, tree: tree_util.PyTreeDef) -> str:
        names = "the exported (args, kwargs)", "the call's"
        return (
            "the arguments must have the structure that they had when the function "
            f"{self.fun_name!r} was exported: "
            f"{difference_of_structures(self.in_tree, tree, *names)}"
        )

    def _check_types(self, operands: Sequence[Any]) -> None:
        for i, (operand, aval) in enumerate(zip(operands, self.in_avals, strict=True)):
            if _fits(tuple(operand.shape), aval.shape) and operand.dtype == aval.dtype:
                continue
            name = self._names[i]
            if not _fits(tuple(operand.shape), aval.shape):
                differs = f"shape {tuple(operand.shape)}, and was exported with {aval.shape}"
            else:
                differs = f"dtype {operand.dtype}, and was exported with {aval.dtype}"
            raise ValueError(f"{name} of the exported function {self.fun_name!r} has {differs}")

    @functools.cached_property
    def _names(self) -> list[str]:
        """The names of the leaves of the arguments in messages, such as ``args[0]``."""
        example = self.in_tree.unflatten([HOLE] * len(self.in_avals))
        return [
            ("args", "kwargs")[path[0].idx] + tree_util.keystr(path[1:])
            for path, _ in tree_util.tree_leaves_with_path(example)
        ]

    @functools.cached_property
    def _sizes(self) -> Sizes:
        """Computes the values of the variables of symbolic dimensions."""
        return Sizes(self.in_avals, self._names, self.fun_name)

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        """The program as a jitted function of its operands, with `vjp` as its derivative."""

        def primal(*operands: Any) -> Any:
            return self._run(operands)

        def forward(*operands: Any) -> Any:
            return function(*operands), operands

        def backward(operands: Any, cotangents: Any) -> Any:
            derivative, given = self.vjp(), iter(operands)
            sizes = self._sizes_of(operands)
            full = [
                np.zeros(_shape(a, sizes), float0) if a.dtype == float0 else next(given)
                for a in self.in_avals
            ]
            found, tangents = iter(cotangents), derivative.in_avals[len(full) :]
            for aval, out in zip(tangents, self.out_avals, strict=True):
                cotangent = None if out.dtype == float0 else next(found)
                none = aval.dtype == float0
                full.append(np.zeros(_shape(out, sizes), float0) if none else cotangent)
            result = derivative.call(*full)
            return tuple(None if _is_float0(result[i]) else result[i] for i in kept)

        kept = self.module_kept_var_idx
        primal.__name__ = self.fun_name
        function = custom_vjp(primal)
        function.defvjp(forward, backward)

        @jit
        def run(*operands: Any) -> Any:
            return function(*operands)

        return run

    def _run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Call the program with its operands: the leaves that are not ``float0``."""
        platform = platform_of(operands, f"the exported function {self.fun_name}")
        if platform not in self.platforms:
            if DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
                raise ValueError(
                    f"the function {self.fun_name!r} was exported for the platforms "
                    f"{', '.join(map(repr, self.platforms))}, but is called on {platform!r}"
                )
            platform = self.platforms[0]
        program, name = self._parsed(platform, operands)
        shardings = [self.in_shardings[i] for i in self.module_kept_var_idx]
        given = [*_constrained(operands, shardings), *self.closed_over]
        results = call_function(program, name, given)
        kept = [i for i, a in enumerate(self.out_avals) if a.dtype != float0]
        results = with_avals(results, [self.out_avals[i] for i in kept])
        return tuple(_constrained(results, [self.out_shardings[i] for i in kept]))

    def _sizes_of(self, operands: Sequence[Any]) -> dict[str, Any]:
        """The values of the variables of symbolic dimensions, from the program's operands."""
        if self._kept_sizes.scope is None:
            return {}
        return self._kept_sizes([tuple(x.shape) for x in operands])

    @functools.cached_property
    def _kept_sizes(self) -> Sizes:
        kept = self.module_kept_var_idx
        avals, names = [self.in_avals[i] for i in kept], [self._names[i] for i in kept]
        return Sizes(avals, names, self.fun_name)

    @functools.cached_property
    def _parsed_programs(self) -> dict[Any, tuple[Program, str]]:
        return {}

    def _parsed(self, platform: str, operands: Sequence[Any]) -> tuple[Program, str]:
        """The parsed program and the name of its function, chosen to avoid the names in callers.

        Symbolic dimensions are replaced by the operands' sizes before any transformation is
        expanded.
        """
        sizes = self._sizes_of(operands)
        key = (self.programs.get(platform, platform), *sizes.items())
        if key not in self._parsed_programs:
            symbol = "".join(c if c.isalnum() else "_" for c in self.fun_name).strip("_")
            source, program = self._source(platform, operands, sizes), Program()
            body = program.import_body(source, source.body("main"), {})
            name = program.add(f"exported_{symbol}", body)
            program.mark_effects()
            self._parsed_programs[key] = program, name
        return self._parsed_programs[key]

    def _source(self, platform: str, operands: Sequence[Any], sizes: Mapping[str, Any]) -> Program:
        """The program of a platform for the operands' sizes."""
        if self._read_for is not None:
            if any(map(is_symbolic_dim, sizes.values())):
                raise NotImplementedError(
                    f"the function {self.fun_name!r} was exported by JAX with symbolic "
                    "dimensions; it can only be called with arrays whose sizes are numbers"
                )
            return self._read_for(platform, [TensorType(tuple(x.shape), x.dtype) for x in operands])
        ensure_context()
        source = Program(ir.Module.parse(self.programs[platform], context()))
        return refined(source, sizes) if sizes else source

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name!r}, ...)"

    __repr__ = __str__


def _constrained(values: Sequence[Any], shardings: Sequence[NamedSharding | None]) -> list[Any]:
    """Values, with sharding constraints on those that are tracers."""
    return [
        x if s is None or not is_tracer(x) else constrained(x, s)
        for x, s in zip(values, shardings, strict=True)
    ]


def _is_float0(x: Any) -> bool:
    return not is_tracer(x) and getattr(x, "dtype", None) == float0


def _fits(shape: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Whether a shape matches the expected one; a symbolic dimension matches any size."""
    return len(shape) == len(expected) and all(
        is_symbolic_dim(n) or m == n for m, n in zip(shape, expected, strict=True)
    )


def _shape(aval: ShapedArray, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of a type, with values substituted for its variables."""
    shape: tuple[Any, ...] = aval.shape
    return tuple(substituted(n.polynomial, sizes) if is_symbolic_dim(n) else n for n in shape)


def _portable_artifact(text: str) -> bytes:
    """The portable artifact of a program of the dialect, not legalized for any backend."""
    ensure_context()
    return lowered(Program(ir.Module.parse(text, context()))).artifact().portable
