"""Exporting: tracing a jitted function for given types and platforms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon.backends.compilation as lowering
from gnomon import tree_util
from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._compilation.arguments import Call
from gnomon._compilation.jit import jit
from gnomon._compilation.jit_function import JitFunction
from gnomon._compilation.stages import ShapeDtypeStruct, aval_of
from gnomon._export.exported import Exported
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.shardings import device_count, forget_devices, logical
from gnomon._export.sizes import check_variables, scope_of
from gnomon._sharding.device import default_device
from gnomon._tracing.function import Traced, name_of
from gnomon._tracing.shardings import sharding_in
from gnomon._tracing.stack import outside_of_traces, program_platform
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.differentiate import vjp as vjp_of
from gnomon.dialects.types import is_inexact
from gnomon.lax._operands import broadcast

__all__ = ["default_export_platform", "export"]


def default_export_platform() -> str:
    """The platform that functions are exported for by default: the one of the default device.

    Example:
      >>> from gnomon import export
      >>> export.default_export_platform()
      'cpu'
    """
    return default_device().platform


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Export a function, so that it can be kept in a file and called in another process.

    Args:
      fun_jit: a function that `jit` returned.
      platforms: the platforms that it may run on, present or not; None for the default platform.
      disabled_checks: checks that calls of the function skip.

    Returns:
      A function that takes arrays, or `ShapeDtypeStruct` in their place, and returns an `Exported`.

    Raises:
      TypeError: ``platforms`` is a string.
      ValueError: the function is not jitted, has meshes of several sizes, or has a symbolic
        dimension whose size does not follow from the shapes of the arguments.
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
    requested = fun_jit._requested

    def exported(*args: Any, **kwargs: Any) -> Exported:
        call = Call(fun_jit._roles, args, kwargs)
        scope_of(list(map(aval_of, call.leaves)), name_of(fun_jit))
        ins = [
            logical(s or sharding_in(leaf))
            for s, leaf in zip(requested.inputs(call), call.leaves, strict=True)
        ]
        traced, texts = _traced_for(fun_jit, call, chosen)
        outs = [
            logical(s or a.explicit)
            for s, a in zip(requested.outputs(traced.tree), traced.avals, strict=True)
        ]
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
            nr_devices=device_count(traced.program, [*ins, *outs], name_of(fun_jit)),
            in_shardings=tuple(ins),
            out_shardings=tuple(outs),
            _parameters=tuple(call.positional_names(fun_jit._fun)),
        )
        for text in set(texts.values()):
            check_variables(text, found._kept_sizes.variables, name_of(fun_jit))
        return found

    return exported


def _traced_for(
    function: JitFunction[..., Any], call: Call, platforms: tuple[str, ...]
) -> tuple[Traced, dict[str, str]]:
    """Trace a function for each platform; only once if it does not ask for the platform."""
    texts: dict[str, str] = {}
    first: Traced | None = None
    for platform in platforms:
        with outside_of_traces(), program_platform(platform) as queries:
            traced = function._trace(call)
        _check_exportable(function, traced)
        program = traced.program
        program.add("main", traced.body, public=True)
        program.rename(f"jit_{traced.name}")
        forget_devices(program)
        text = str(lowering.Text(program.module).located)
        first = first or traced
        if traced.avals != first.avals or not _same(traced.captures, first.captures):
            raise NotImplementedError(
                f"export of {name_of(function)}: for {platform!r} it has other results, or closes "
                f"over other arrays, than for {platforms[0]!r}; export it for each platform "
                "separately"
            )
        texts[platform] = text
        if not queries:
            return first, dict.fromkeys(platforms, text)
    assert first is not None
    return first, texts


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _check_exportable(function: JitFunction[..., Any], traced: Traced) -> None:
    if traced.program.callbacks:
        raise NotImplementedError(
            f"export of {name_of(function)}: it calls Python functions, which do not exist in "
            "other processes; remove the callbacks and debug prints"
        )
    if any(map(is_tracer, traced.captures)):
        raise ValueError(
            f"export of {name_of(function)}: it closes over a value that is being traced; make it "
            "an argument"
        )


def _export_vjp(primal: Exported) -> Exported:
    """Export the function that computes cotangents, traced from the exported program."""
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

    def without_float0(*operands: Any) -> Any:
        leaves: list[Any] = [None] * len(in_avals)
        for i, operand in zip(positions, operands, strict=True):
            leaves[i] = operand
        return fun_vjp(*leaves)

    without_float0.__name__ = fun_vjp.__name__
    shardings = (*primal.in_shardings, *primal.out_shardings)
    structs = [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=shardings[i])
        for i, a in zip(positions, given, strict=True)
    ]
    inner = export(
        jit(without_float0),
        platforms=primal.platforms,
        disabled_checks=primal.disabled_safety_checks,
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
        nr_devices=primal.nr_devices,
        in_shardings=shardings,
        out_shardings=primal.in_shardings,
        _get_vjp=_export_vjp,
    )
