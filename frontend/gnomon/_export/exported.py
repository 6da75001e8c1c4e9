"""Exported functions: traced for given types and platforms, and callable anywhere after that."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import gnomon.backends.compilation as lowering
from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._compilation.arguments import Call
from gnomon._compilation.jit import JitFunction, jit
from gnomon._compilation.stages import ShapeDtypeStruct, aval_of
from gnomon._export.serialization import serialize
from gnomon._export.sizes import Sizes, scope_of
from gnomon._sharding.device import default_device
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import Traced, call_function, name_of, with_avals
from gnomon._tracing.stack import outside_of_traces, platform_of, program_platform
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_vjp import custom_vjp
from gnomon._transformations.differentiate import vjp as vjp_of
from gnomon._trees.prefixes import HOLE, difference, structure_mismatch
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo
from gnomon.dialects.refinement import refined
from gnomon.dialects.symbolic.dimension import SymbolicScope, is_symbolic_dim, substituted
from gnomon.dialects.types import is_inexact
from gnomon.lax._operands import broadcast

__all__ = ["DisabledSafetyCheck", "Exported", "default_export_platform", "export"]

CALLING_CONVENTION_VERSION = 1


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that calls of exported functions leave out.

    Attributes:
      name: the name of the check.
    """

    name: str

    @staticmethod
    def platform() -> DisabledSafetyCheck:
        """The check that a function runs on a platform that it was exported for."""
        return DisabledSafetyCheck("platform")

    @staticmethod
    def custom_call(target_name: str) -> DisabledSafetyCheck:
        """The check that a custom call is one of those with a stability guarantee."""
        return DisabledSafetyCheck(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call, if it is the check of one."""
        kind, _, name = self.name.partition(":")
        return name if kind == "custom_call" else None

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A function exported for given types and platforms.

    Attributes:
      fun_name: the function's name.
      in_tree: the structure of a pair of positional arguments and those given by name.
      in_avals: types of the leaves of the arguments; ``float0`` ones are not given to the program.
      out_tree: the structure of the results.
      out_avals: types of their leaves.
      platforms: those that it was exported for.
      disabled_safety_checks: the checks that its calls leave out.
      donated: positions of the arguments whose memory a call takes over in a saved artifact.
      programs: the program in gnomon's dialect by platform, as text; after the inputs it takes the
        arrays that the function closes over.
      closed_over: those arrays.
      nr_devices: the number of devices that the program is for: 1.
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
    nr_devices: int = 1
    calling_convention_version: int = CALLING_CONVENTION_VERSION
    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    uses_global_constants: bool = False

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The inputs that the program takes: all that are not ``float0``."""
        return tuple(i for i, a in enumerate(self.in_avals) if a.dtype != float0)

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

        Raises:
          NotImplementedError: it has symbolic dimensions.
        """
        if self.is_symbolic:
            raise NotImplementedError(
                f"the exported function {self.fun_name!r} has symbolic dimensions; it becomes "
                "StableHLO for given sizes only: export a jitted function that calls it for those"
            )
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
        return str(stablehlo.deserialize_portable_artifact(context(), self.mlir_module_serialized))

    def has_vjp(self) -> bool:
        """Whether `vjp` gives a function."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported function that computes cotangents.

        It takes the leaves of the arguments and a cotangent for each leaf of the results, and
        returns a tuple of a cotangent for each argument: ``float0`` zeros for integers.

        Raises:
          ValueError: the function was serialized without it.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"the exported function {self.fun_name!r} has no VJP: it was serialized without "
                "one; give serialize a vjp_order"
            )
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes, which `deserialize` reads.

        Args:
          vjp_order: how many times the deserialized function can be differentiated.
        """
        return bytearray(serialize(self, vjp_order))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; it can be jitted, differentiated in reverse mode, and vectorized.

        Raises:
          ValueError: structure, shapes, dtypes or platform are not those that it was exported for.
        """
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(self._structure_error(tree))
        operands = [leaf if _is_float0(leaf) else as_operand(leaf) for leaf in leaves]
        self._check_types(operands)
        sizes = self._sizes([tuple(x.shape) for x in operands])
        kept = [operands[i] for i in self.module_kept_var_idx]
        results = iter(self._function(*kept))
        out = [
            np.zeros(_shape(a, sizes), float0) if a.dtype == float0 else next(results)
            for a in self.out_avals
        ]
        return tree_util.tree_unflatten(self.out_tree, out)

    def _structure_error(self, tree: tree_util.PyTreeDef) -> str:
        expected, given = (t.unflatten([HOLE] * t.num_leaves) for t in (self.in_tree, tree))
        found = structure_mismatch(expected, given)
        where = (
            "static data of nodes differ"
            if found is None
            else difference(found, "the exported (args, kwargs)", "the call's")
        )
        return (
            "the arguments must have the structure that they had when the function "
            f"{self.fun_name!r} was exported: {where}"
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
        """Names of the leaves of the arguments in messages: ``args[0]``."""
        example = self.in_tree.unflatten([HOLE] * len(self.in_avals))
        return [
            ("args", "kwargs")[path[0].idx] + tree_util.keystr(path[1:])
            for path, _ in tree_util.tree_leaves_with_path(example)
        ]

    @functools.cached_property
    def _sizes(self) -> Sizes:
        """Finds the variables of symbolic dimensions."""
        return Sizes(self.in_avals, self._names, self.fun_name)

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        """The program on the leaves that it takes, with its derivative."""

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
        """Call the program with the operands that it takes."""
        platform = platform_of(operands, f"the exported function {self.fun_name}")
        text = self.programs.get(platform)
        if text is None:
            if DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
                raise ValueError(
                    f"the function {self.fun_name!r} was exported for the platforms "
                    f"{', '.join(map(repr, self.platforms))}, and is called on {platform!r}"
                )
            text = self.programs[self.platforms[0]]
        program, name = self._parsed(text, self._sizes_of(operands))
        results = call_function(program, name, [*operands, *self.closed_over])
        return tuple(with_avals(results, [a for a in self.out_avals if a.dtype != float0]))

    def _sizes_of(self, operands: Sequence[Any]) -> dict[str, Any]:
        """The sizes of the variables for the operands that the program takes."""
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

    def _parsed(self, text: str, sizes: Mapping[str, Any]) -> tuple[Program, str]:
        """A program and the name of its function, which differs from the names in its callers.

        Its symbolic dimensions are replaced by ``sizes`` before any transformation is expanded.
        """
        key = (text, *sizes.items())
        if key not in self._parsed_programs:
            ensure_context()
            symbol = "".join(c if c.isalnum() else "_" for c in self.fun_name).strip("_")
            source, program = Program(ir.Module.parse(text, context())), Program()
            if sizes:
                source = refined(source, sizes)
            body = program.import_body(source, source.body("main"), {})
            name = program.add(f"exported_{symbol}", body)
            program.mark_effects()
            self._parsed_programs[key] = program, name
        return self._parsed_programs[key]

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name!r}, ...)"

    __repr__ = __str__


def _is_float0(x: Any) -> bool:
    return not is_tracer(x) and getattr(x, "dtype", None) == float0


def _fits(shape: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Whether a shape is the expected one up to symbolic dimensions."""
    return len(shape) == len(expected) and all(
        is_symbolic_dim(n) or m == n for m, n in zip(shape, expected, strict=True)
    )


def _shape(aval: ShapedArray, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """A shape for sizes of its variables."""
    shape: tuple[Any, ...] = aval.shape
    return tuple(substituted(n.polynomial, sizes) if is_symbolic_dim(n) else n for n in shape)


def _portable_artifact(text: str) -> bytes:
    """The portable artifact of a program of the dialect, without any backend's rewriting."""
    ensure_context()
    steps = lowering.Lowering(Program(ir.Module.parse(text, context())))
    steps.expand()
    steps.run(("expand-scan",))
    steps.to_stablehlo()
    return steps.artifact().portable


# ---------------------------------------------------------------------------------------- exporting


def default_export_platform() -> str:
    """The platform that functions are exported for by default: that of the default device."""
    return default_device().platform


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Export a function, so that it can be kept in a file and called in another process.

    Args:
      fun_jit: what `jit` returned.
      platforms: the platforms that it may run on, present or not; the default one if None.
      disabled_checks: checks that calls of the function leave out.

    Returns:
      A function that takes arrays, or `ShapeDtypeStruct` in their place, and returns an `Exported`.
    Raises:
      ValueError: the function is not jitted.
      NotImplementedError: the function calls Python; raised when it is traced.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon import export
      >>> exported = export.export(gn.jit(gnp.sin))(gn.ShapeDtypeStruct((3,), gnp.float32))
      >>> data = exported.serialize()
      >>> export.deserialize(data).call(gnp.zeros(3))
      Array([0., 0., 0.], dtype=float32)
    """
    if not isinstance(fun_jit, JitFunction):
        raise ValueError(f"export takes a function that jit returned, got {fun_jit!r}")
    if isinstance(platforms, str):
        raise TypeError(f"export takes a sequence of platforms, got the string {platforms!r}")
    chosen = tuple(platforms or (default_export_platform(),))

    def exported(*args: Any, **kwargs: Any) -> Exported:
        call = Call(fun_jit._treatment, args, kwargs)
        scope_of(list(map(aval_of, call.leaves)), name_of(fun_jit))
        traced, texts = _traced_for(fun_jit, call, chosen)
        found = Exported(
            fun_name=name_of(fun_jit),
            in_tree=call.tree,
            in_avals=tuple(map(aval_of, call.leaves)),
            out_tree=traced.tree,
            out_avals=tuple(traced.avals),
            platforms=chosen,
            disabled_safety_checks=tuple(disabled_checks),
            donated=tuple(call.donated),
            programs=texts,
            closed_over=tuple(traced.captures),
            _get_vjp=_export_vjp,
        )
        # Raises if the shapes of a call do not determine the variables.
        found._kept_sizes  # noqa: B018
        return found

    return exported


def _traced_for(
    function: JitFunction[..., Any], call: Call, platforms: tuple[str, ...]
) -> tuple[Traced, dict[str, str]]:
    """A function traced for each platform; only once if it does not ask for the platform."""
    texts: dict[str, str] = {}
    first: Traced | None = None
    for platform in platforms:
        with outside_of_traces(), program_platform(platform) as asked:
            traced = function._trace(call)
        _check_exportable(function, traced)
        program = traced.program
        program.add("main", traced.body, public=True)
        program.rename(f"jit_{traced.name}")
        text = str(lowering.Text(program.module).located)
        first = first or traced
        if traced.avals != first.avals or not _same(traced.captures, first.captures):
            raise NotImplementedError(
                f"export of {name_of(function)}: for {platform!r} it has other results, or closes "
                f"over other arrays, than for {platforms[0]!r}: export it for each by itself"
            )
        texts[platform] = text
        if not asked:
            return first, dict.fromkeys(platforms, text)
    assert first is not None
    return first, texts


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _check_exportable(function: JitFunction[..., Any], traced: Traced) -> None:
    if traced.program.callbacks:
        raise NotImplementedError(
            f"export of {name_of(function)}: it calls Python functions, which no other "
            "process has; take the callbacks and debug prints out of it"
        )
    if any(map(is_tracer, traced.captures)):
        raise ValueError(
            f"export of {name_of(function)}: it closes over a value that is being traced; make "
            "that an argument"
        )


def _export_vjp(primal: Exported) -> Exported:
    """The exported function of cotangents, traced from the program."""
    kept = primal.module_kept_var_idx
    wrt = [i for i in kept if is_inexact(primal.in_avals[i].dtype)]
    inexact = [i for i, a in enumerate(primal.out_avals) if is_inexact(a.dtype)]
    count = len(primal.in_avals)

    def fun_vjp(*leaves: Any) -> Any:
        inputs, cotangents = leaves[:count], leaves[count:]

        def function(*varied: Any) -> Any:
            values = dict(zip(wrt, varied, strict=True))
            results = iter(primal._run([values.get(i, inputs[i]) for i in kept]))
            found = [None if a.dtype == float0 else next(results) for a in primal.out_avals]
            return tuple(found[i] for i in inexact)

        gradients: dict[int, Any] = {
            i: broadcast(wrap(np.zeros((), inputs[i].dtype)), inputs[i].shape) for i in wrt
        }
        if wrt and inexact:
            _, pull_back = vjp_of(function, *(inputs[i] for i in wrt))
            found = pull_back(tuple(cotangents[i] for i in inexact))
            gradients = dict(zip(wrt, found, strict=True))
        return tuple(gradients[i] for i in sorted(gradients))

    tangents = [
        a if is_inexact(a.dtype) else shaped_array(a.shape, float0) for a in primal.out_avals
    ]
    in_avals = (*primal.in_avals, *tangents)
    fun_vjp.__name__ = f"{primal.fun_name}_vjp"
    given = [a for a in in_avals if a.dtype != float0]
    positions = [i for i, a in enumerate(in_avals) if a.dtype != float0]

    def on_kept(*operands: Any) -> Any:
        leaves: list[Any] = [None] * len(in_avals)
        for i, operand in zip(positions, operands, strict=True):
            leaves[i] = operand
        return fun_vjp(*leaves)

    on_kept.__name__ = fun_vjp.__name__
    structs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in given]
    inner = export(
        jit(on_kept), platforms=primal.platforms, disabled_checks=primal.disabled_safety_checks
    )(*structs)
    found = iter(inner.out_avals)
    out_avals = tuple(
        next(found) if i in wrt else shaped_array(a.shape, float0)
        for i, a in enumerate(primal.in_avals)
    )
    return dataclasses.replace(
        inner,
        in_tree=tree_util.tree_structure((tuple([0] * len(in_avals)), {})),
        in_avals=in_avals,
        out_tree=tree_util.tree_structure(tuple([0] * count)),
        out_avals=out_avals,
        _get_vjp=_export_vjp,
    )
