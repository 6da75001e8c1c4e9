"""The stages of ahead-of-time compilation, the log of `jit`, `ravel_pytree`, types, DLPack."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import subprocess
import sys
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.flatten_util import ravel_pytree
from tests.frontend.oracle import check, to_gnomon


def _step(state: Any, scale: Any = 1.0, *, power: int = 2) -> Any:
    return {"a": scale * state["a"] ** power}, state["b"]


def test_stages_and_linear_maps_print_their_types() -> None:
    def line(tree: Any) -> Any:
        return tree["a"] * 2

    traced = gn.jit(line).trace({"a": gnp.ones(3), "b": 1.0})
    types = "(float32[3], float32[]) -> (float32[3])"
    assert repr(traced) == f"<Traced jit of line: {types}>"
    assert repr(traced.lower()) == f"<Lowered jit of line: {types}>"
    assert repr(traced.lower().compile()) == f"<Compiled jit of line: {types}>"
    many = gn.jit(lambda xs: xs[0]).trace([1] * 9)
    assert "int32[], 3 more) -> (int32[])" in repr(many)
    assert (
        repr(gn.linearize(gnp.sum, gnp.ones(3))[1]) == "<Pushforward: (float32[3]) -> (float32[])>"
    )
    assert repr(gn.vjp(gnp.sum, gnp.ones(3))[1]) == "<Pullback: (float32[]) -> (float32[3])>"


def test_stages_describe_arguments_and_results() -> None:
    options = {"static_argnames": ("power",), "donate_argnums": (0,)}
    ours, theirs = gn.jit(_step, **options), jax.jit(_step, **options)
    state = {"a": jnp.ones((2, 3)), "b": jnp.arange(3)}
    expected = theirs.trace(state, 2.0, power=3)
    traced = ours.trace(to_gnomon(state), 2.0, power=3)
    lowered = traced.lower()
    for stage in (traced, lowered, lowered.compile()):
        for info, other in zip(
            gn.tree.leaves(stage.args_info), jax.tree.leaves(expected.args_info), strict=True
        ):
            assert isinstance(info, gn.stages.ArgInfo)
            assert (info.shape, info.dtype) == (other.shape, other.dtype)
            assert info.donated == other.donated
        assert stage.donate_argnums == expected.donate_argnums
        assert stage.in_tree == gn.tree.structure(((to_gnomon(state), 2.0), {}))
        assert stage.out_info[0]["a"].shape == expected.out_info[0]["a"].shape
    assert traced.fun_name == expected.fun_name == "_step"
    assert "gnomon.integer_pow" in str(traced.jaxpr)
    assert isinstance(ours, gn.stages.Wrapped)
    assert isinstance(traced, gn.stages.Traced)
    assert isinstance(lowered, gn.stages.Lowered)
    for dialect in (None, "stablehlo", "traced"):
        module = lowered.compiler_ir(dialect)
        assert module.operation.verify()
        assert str(module).strip() == lowered.as_text(dialect or "stablehlo").strip()
    with pytest.raises(ValueError, match="there is no stage 'hlo'"):
        lowered.compiler_ir("hlo")
    with pytest.raises(NotImplementedError, match=r"one platform, got \('cpu', 'tpu'\)"):
        traced.lower(lowering_platforms=("cpu", "tpu"))
    with pytest.raises(TypeError, match="a sequence of platforms, got 'cpu'"):
        traced.lower(lowering_platforms="cpu")
    on_the_host = traced.lower(lowering_platforms=("cpu",))
    assert on_the_host.as_text() == lowered.as_text()
    assert on_the_host is traced.lower(lowering_platforms=["cpu"]) is not traced.lower()
    (first, second), third = gn.jit(_step).trace(to_gnomon(state)).out_info, None
    assert first["a"].shape == (2, 3) and second.shape == (3,) and third is None


def test_a_compiled_function_names_the_argument_of_another_type() -> None:
    compiled = gn.jit(lambda state: state["a"]).lower({"a": gnp.ones(2)}).compile()
    with pytest.raises(TypeError, match=r"float32\[2\] as the argument 'state'\['a'\], called"):
        compiled({"a": gnp.arange(2)})


def test_the_log_of_jit(caplog: pytest.LogCaptureFixture) -> None:
    f = gn.jit(lambda x, n: x * n, static_argnums=1)
    with caplog.at_level(logging.WARNING, "gnomon.jit"), gn.explain_cache_misses():
        f(1.0, 2)
        f(1.0, 2)
        f(gnp.ones(3), 2)
        f(1.0, 3)
    texts = [r.getMessage() for r in caplog.records]
    assert len(texts) == 3 and all("test_stages.py" in t.splitlines()[0] for t in texts)
    assert "never seen function" in texts[0]
    assert "seen float32[] of weak type, but now given float32[3]" in texts[1]
    assert "static arguments: seen {1: 2}, but now given {1: 3}" in texts[2]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "gnomon.jit"), gn.log_compiles():
        f(2.0, 3)  # an option that does not affect tracing does not cause a compilation
        f(gnp.ones(3), 3)
    texts = [r.getMessage() for r in caplog.records]
    assert len(texts) == 3 and "float32[3]" in texts[0]
    assert texts[1].startswith("Finished tracing") and texts[2].startswith("Finished compiling")
    earlier = gn.jit(lambda x, by: x["a"] * by)
    earlier({"a": gnp.ones(3)}, 2)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "gnomon.jit"), gn.explain_cache_misses():
        earlier({"a": gnp.ones(4)}, 2)  # The option was off when the function was first compiled.
    (text,) = (r.getMessage() for r in caplog.records)
    assert "at the argument 'x'['a'], seen float32[3], but now given float32[4]" in text
    with gn.no_tracing():
        f(3.0, 3)
        with pytest.raises(RuntimeError, match="'no_tracing' is set"):
            f(gnp.ones(4), 3)


def test_the_level_of_the_loggers(capsys: pytest.CaptureFixture[str]) -> None:
    gn.jit(lambda x: x + 1)(gnp.ones(2))
    assert capsys.readouterr().err == ""
    gn.config.update("jax_logging_level", "DEBUG")
    try:
        assert gn.config.gnomon_logging_level == "DEBUG"
        gn.jit(lambda x: x + 2)(gnp.ones(2))
        lines = [t for t in capsys.readouterr().err.splitlines() if ":gnomon.jit:" in t]
        assert all(line.startswith("DEBUG:") for line in lines)
        texts = [line.rpartition(": ")[2] for line in lines]
        assert texts[0] == "Tracing and compiling <lambda> for arguments of types [float32[2]]."
        assert texts[1].startswith("Finished tracing <lambda> in ")
        assert texts[2].startswith("Finished compiling <lambda> in ")
        gn.config.update("gnomon_logging_level", "WARNING")
        gn.jit(lambda x: x + 3)(gnp.ones(2))
        assert capsys.readouterr().err == ""
        with gn.log_compiles():
            gn.jit(lambda x: x + 4)(gnp.ones(2))
        assert capsys.readouterr().err.count("WARNING:") == 3
        with pytest.raises(ValueError, match="takes None or one of 'NOTSET', 'DEBUG'"):
            gn.config.update("gnomon_logging_level", "LOUD")
    finally:
        gn.config.update("gnomon_logging_level", None)
    assert logging.getLogger("gnomon").level == logging.NOTSET
    gn.jit(lambda x: x + 5)(gnp.ones(2))
    assert capsys.readouterr().err == ""


def test_the_level_of_the_loggers_from_the_environment() -> None:
    code = "import gnomon as gn; gn.jit(lambda x: x + 1)(1.0)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GNOMON_LOGGING_LEVEL": "DEBUG"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ": Finished compiling <lambda> in " in done.stderr


def test_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gnomon.debug"):
        gn.debug.log("x = {}, {y}", gnp.arange(2), y=1)
    assert [r.getMessage() for r in caplog.records] == ["x = [0 1], 1"]
    with pytest.raises(ValueError, match="Unused positional"):
        gn.debug.log("", 1)


TREES = {
    "one dtype": {"a": np.ones((2, 1), np.float32), "b": [np.zeros(3, np.float32), 2.5]},
    "several": {"a": np.arange(3), "b": (np.float16(1.5), np.array(True)), "c": 1j},
    "scalars": (1, 2.0, True),
    "none": {},
    "empty arrays": [np.zeros((0, 2), np.float32), np.zeros(0, np.int32)],
}


@pytest.mark.parametrize("name", list(TREES))
def test_ravel_pytree(name: str) -> None:
    def on(ravel: Any, leaves: Any) -> Any:
        flat, unravel = ravel(TREES[name])
        return [flat, *leaves(unravel(flat))]

    theirs = jax.jit(lambda: on(jax.flatten_util.ravel_pytree, jax.tree.leaves))()
    check(lambda: on(ravel_pytree, gn.tree.leaves), lambda: theirs, weak=False)
    flat, unravel = ravel_pytree(TREES[name])
    assert gn.tree.structure(unravel(flat)) == gn.tree.structure(TREES[name])


def test_unravel() -> None:
    flat, unravel = ravel_pytree({"a": gnp.ones(2), "b": gnp.zeros(())})
    assert gn.grad(lambda v: unravel(v)["a"].sum())(flat).tolist() == [1.0, 1.0, 0.0]
    assert unravel(np.arange(3))["a"].dtype == gnp.int32
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        unravel(gnp.ones(4))
    _, unravel = ravel_pytree((1, 2.0))
    with pytest.raises(TypeError, match="expected dtype float32"):
        unravel(np.arange(2))


def test_types_and_dlpack() -> None:
    assert all(isinstance(x, gn.typing.ArrayLike) for x in (1, 2.0, np.ones(2), gnp.ones(2)))
    assert not isinstance([1], gn.typing.ArrayLike)
    for name in ("bool", "int4", "uint16", "bfloat16", "float8_e5m2", "complex64"):
        dtype = jnp.dtype(name)
        ours = gn.dlpack.is_supported_dtype(dtype)
        assert ours == jax.dlpack.is_supported_dtype(dtype), name


def test_a_compiled_function_is_not_traced() -> None:
    compiled = gn.jit(lambda x: x * 2).lower(1.0).compile()
    for traced in (gn.jit(lambda x: compiled(x)), gn.grad(compiled)):
        with pytest.raises(TypeError, match="cannot be traced"):
            traced(1.0)


def test_jitted_functions_are_copied() -> None:
    f = gn.jit(lambda x, n: x * n, static_argnums=1)
    for g in (copy.copy(f), copy.deepcopy({"f": f})["f"]):
        assert float(g(2.0, 3)) == 6.0
    assert len(gn.ShapeDtypeStruct((2, 3), "int8")) == 2


def test_options_of_jit_that_are_of_xla_or_of_several_devices() -> None:
    here = gn.sharding.SingleDeviceSharding(gn.devices()[0])
    f = gn.jit(lambda x: x + 1, in_shardings=(here,), out_shardings=here, compiler_options={})
    assert f(gnp.ones(3)).sharding == here
    assert float(gn.jit(lambda x: x + 1, in_shardings=None)(1.0)) == 2.0
    with pytest.raises(TypeError, match="takes shardings"):
        gn.jit(lambda x: x, in_shardings="x")
    with pytest.raises(ValueError, match="pass only one of"):
        gn.jit(lambda x: x, in_shardings=here, backend="cpu")
    for compile_ in (
        lambda options: gn.jit(lambda x: x, compiler_options=options),
        lambda options: gn.jit(lambda x: x).lower(1.0).compile(options),
    ):
        with pytest.raises(NotImplementedError, match="XLA"):
            compile_({"xla_embed_ir_in_executable": True})


def test_the_default_target_serializes() -> None:
    y = gnp.arange(3.0)
    compiled = gn.jit(lambda x: gnp.sin(x) + y).lower(gnp.ones(3)).compile()
    assert len(compiled.serialize()) > 1000


@pytest.mark.parametrize("target", [None, "cpu"])
def test_a_program_that_calls_python_does_not_serialize(target: str | None) -> None:
    lowered = gn.jit(gnp.linalg.cholesky).lower(gnp.eye(5))
    with pytest.raises(ValueError, match="calls Python for cholesky"):
        lowered.compile(target=target).serialize()


def test_the_signature_of_a_jitted_function() -> None:
    def f(x: int, *, scale: float = 2.0) -> float:
        return x * scale

    for jitted in (gn.jit(f), gn.pmap(f)):
        for follow in (True, False):
            assert inspect.signature(jitted, follow_wrapped=follow) == inspect.signature(f)
        assert not hasattr(jitted, "no_such_attribute")
