"""checkpoint: equal derivatives, the saved residuals, and the recomputed values."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import ad_checkpoint, lax
from gnomon import checkpoint_policies as policies
from gnomon.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals
from tests.tolerance import assert_near

X = np.array([0.1, -0.2, 0.3], np.float32)
W = np.arange(9, dtype=np.float32).reshape(3, 3) / 10


def close(ours: Any, expected: Any) -> None:
    assert_near(ours, expected, 8, scale=1.0)


def layer(x: Any) -> Any:
    return gnp.sin(W @ gnp.sin(x))


NESTINGS = {
    "grad": lambda f: gn.grad(lambda x: gnp.sum(f(x)))(X),
    "grad_of_grad": lambda f: gn.grad(
        lambda x: gnp.sum(gn.grad(lambda y: gnp.sum(f(y) ** 2))(x) ** 2)
    )(X),
    "jvp": lambda f: gn.jvp(f, (X,), (X,)),
    "jacfwd": lambda f: gn.jacfwd(f)(X),
    "hessian": lambda f: gn.hessian(lambda x: gnp.sum(f(x)))(X),
    "vmap_of_jacrev": lambda f: gn.vmap(gn.jacrev(f))(W),
    "grad_of_vmap": lambda f: gn.grad(lambda w: gnp.sum(gn.vmap(f)(w)))(W),
    "linearize": lambda f: gn.linearize(f, X)[1](X),
    "scan": lambda f: gn.grad(
        lambda x: gnp.sum(lax.scan(lambda c, _: (f(c), c), x, None, length=4)[1])
    )(X),
    "grad_of_grad_of_scan": lambda f: gn.grad(
        lambda t: gnp.sum(
            gn.grad(lambda x: gnp.sum(lax.scan(lambda c, _: (f(c), c), x, None, length=3)[1]))(
                X * t
            )
        )
    )(0.5),
    "cond": lambda f: gn.grad(lambda x: gnp.sum(lax.cond(x[0] > 0, f, lambda x: x, x)))(X),
}


@pytest.mark.parametrize("nesting", NESTINGS)
def test_derivatives_are_those_of_the_function(nesting: str) -> None:
    expected = NESTINGS[nesting](layer)
    for policy in (None, policies.dots_saveable, policies.everything_saveable):
        close(NESTINGS[nesting](gn.checkpoint(layer, policy=policy)), expected)


@pytest.mark.parametrize("first", [True, False])
def test_values_of_any_branch_are_saved(first: bool) -> None:
    def named(x: Any) -> Any:
        return checkpoint_name(gnp.sin(x), "h")

    branches = (named, gnp.cos) if first else (gnp.cos, named)

    def f(x: Any) -> Any:
        return gnp.sum(gnp.sin(lax.cond(x[0] > 0, *branches, x)))

    checkpointed = gn.checkpoint(f, policy=policies.save_only_these_names("h"))
    origins = [origin for _, origin in saved_residuals(checkpointed, X)]
    assert any("output of switch" in origin for origin in origins)
    close(gn.grad(checkpointed)(X), gn.grad(f)(X))


def test_jit_inside_of_a_checkpoint() -> None:
    close(NESTINGS["grad"](gn.checkpoint(gn.jit(gn.remat(layer)))), NESTINGS["grad"](layer))


def test_compiled() -> None:
    names = ("grad", "grad_of_grad", "scan", "grad_of_vmap")
    compiled = gn.jit(lambda: [NESTINGS[n](gn.checkpoint(layer)) for n in names])
    close(compiled(), [NESTINGS[n](layer) for n in names])


def deep(x: Any, w: Any) -> Any:
    h = checkpoint_name(gnp.sin(w @ x), "h")
    return gnp.sum(gnp.cos(gnp.sin(w @ h)))


INPUTS = {"from the argument x", "from the argument w"}
KEPT = {
    "nothing": (None, INPUTS),
    "dots": (policies.dots_saveable, INPUTS | {"output of dot_general"}),
    "unbatched dots": (
        policies.dots_with_no_batch_dims_saveable,
        INPUTS | {"output of dot_general"},
    ),
    "named": (policies.save_only_these_names("h", "g"), INPUTS | {"named 'h'"}),
    "other names": (policies.save_only_these_names("g"), INPUTS),
    "any name but": (policies.save_any_names_but_these("h"), INPUTS),
    "any name but others": (policies.save_any_names_but_these("a:b,c"), INPUTS | {"named 'h'"}),
    "both": (
        policies.save_from_both_policies(
            policies.save_only_these_names("h"), policies.dots_saveable
        ),
        INPUTS | {"named 'h'", "output of dot_general"},
    ),
    "python": (
        lambda op, *avals, **params: op.name == "sin" and avals[0].ndim == 1,
        INPUTS | {"named 'saved by <lambda>'"},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_values_that_a_policy_saves(case: str) -> None:
    policy, expected = KEPT[case]
    checkpointed = gn.checkpoint(deep, policy=policy)
    kept = saved_residuals(checkpointed, X, W)
    assert {re.sub(r" from [^ ]*\.py.*", "", origin) for _, origin in kept} == expected
    close(gn.grad(checkpointed, (0, 1))(X, W), gn.grad(deep, (0, 1))(X, W))


def test_saving_everything_saves_the_same_residuals_as_without_a_checkpoint() -> None:
    everything = gn.checkpoint(deep, policy=policies.everything_saveable)
    kept = sorted(str(aval) for aval, _ in saved_residuals(everything, X, W))
    assert kept == sorted(str(aval) for aval, _ in saved_residuals(deep, X, W))
    but = gn.checkpoint(deep, policy=policies.save_anything_except_these_names("h"))
    assert not any("named" in origin for _, origin in saved_residuals(but, X, W))


def test_print_saved_residuals(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(
        gn.checkpoint(lambda x, p: gnp.sin(gnp.sin(x) * p["w"])), 1.0, p={"w": gnp.ones(5)}
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["f32[] from the argument x", "f32[5] from the argument p['w']"]


def step(carry: Any, _: Any) -> Any:
    for _i in range(8):
        carry = gnp.sin(carry) * 0.9 + 0.1
    return carry, None


def test_a_scan_stacks_its_carry_alone() -> None:
    """A gradient stacks 8 values per iteration without checkpoints, and 1 value with them."""

    def stacked(body: Any) -> int:
        f = gn.grad(lambda x: gnp.sum(lax.scan(body, x, None, length=1000)[0]))
        text = gn.jit(f).lower(gnp.ones((16, 16))).as_text("gnomon")
        (forward, *_) = [
            line for line in text.splitlines() if "->" in line and "1000x16x16" in line
        ]
        return forward.partition("->")[2].count("1000x16x16")

    assert stacked(step) == 8
    assert stacked(gn.checkpoint(step)) == 1


# The peak that `getrusage` reports for a child starts at its parent's peak.
PEAK = """
import re, sys
import gnomon as gn, gnomon.numpy as gnp

def step(carry, _):
    for _i in range(8):
        carry = gnp.sin(carry) * 0.9 + 0.1
    return carry, None

body = gn.checkpoint(step) if sys.argv[1] == "checkpoint" else step
f = gn.jit(gn.grad(lambda x: gnp.sum(gn.lax.scan(body, x, None, length=100)[0])))
x = gnp.ones((256, 256))
compiled = f.lower(x).compile()
def peak():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])

before = peak()
float(compiled(x)[0, 0])
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in kilobytes on Linux")
def test_peak_memory_of_a_long_scan() -> None:
    """100 iterations of 8 values of 256 kB each: 200 MB without checkpoints, 25 MB with them."""

    def peak(how: str) -> float:
        run = [sys.executable, "-c", PEAK, how]
        return float(subprocess.run(run, capture_output=True, check=True, text=True).stdout) / 1024

    assert peak("plain") > 190
    assert peak("checkpoint") < 60


def test_recomputation_is_after_a_barrier() -> None:
    def text(prevent_cse: bool) -> str:
        f = gn.checkpoint(lambda x: gnp.sin(gnp.exp(x)), prevent_cse=prevent_cse)
        return gn.jit(gn.value_and_grad(f)).lower(1.0).as_text("gnomon")

    assert text(True).count('"gnomon.exp"') == 2
    assert "optimization_barrier" in text(True)
    assert text(False).count('"gnomon.exp"') == 1


def test_static_arguments_and_control_flow_of_python() -> None:
    g = gn.checkpoint(
        lambda x, n, flip: x**n if flip else x, static_argnums=(1,), static_argnames="flip"
    )
    assert float(gn.jit(gn.grad(lambda x: g(x, 3, flip=True)))(2.0)) == 12.0
    assert float(gn.grad(gn.checkpoint(lambda x: x**2 if x > 1 else x))(2.0)) == 4.0
    weights = gnp.arange(5.0)
    closed = gn.grad(lambda w: gnp.sum(gn.checkpoint(lambda x: gnp.sin(x * w))(weights)))
    close(closed(weights), np.cos(np.asarray(weights) ** 2) * np.asarray(weights))


def test_errors() -> None:
    with pytest.raises(NotImplementedError, match="static_argnums"):
        gn.checkpoint(gnp.sin, concrete=True)
    with pytest.raises(TypeError, match="policy"):
        gn.grad(gn.checkpoint(gnp.sin, policy="dots"))(1.0)
    with pytest.raises(ValueError, match="static_argnums"):
        gn.grad(gn.checkpoint(gnp.sin, static_argnums=3))(1.0)
    with pytest.raises(TypeError, match="string"):
        checkpoint_name(1.0, 2)
    with pytest.raises(ValueError, match=r"lax\.scan"):
        gn.grad(gn.checkpoint(lambda x: lax.while_loop(lambda v: v < 9, lambda v: 2 * v, x)))(1.0)


def test_policies_that_offload_save() -> None:
    def policy(op: Any, *avals: Any, **params: Any) -> Any:
        if op.name == "sin":
            return ad_checkpoint.Offloadable("device", "pinned_host")
        return ad_checkpoint.Saveable if op.name == "dot_general" else ad_checkpoint.Recompute

    saved = ad_checkpoint.saved_residuals(gn.checkpoint(_named, policy=policy), 1.0)
    assert any("sin" in origin or "named" in origin for _, origin in saved)
    both = gn.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"],
        names_which_can_be_offloaded=["b"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    assert repr(both) == "<checkpoint policy save_only_these_names:a,b>"
    assert gn.grad(gn.checkpoint(_named, policy=both))(1.0) == gn.grad(_named)(1.0)
    with pytest.raises(ValueError, match="must be disjoint"):
        gn.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["a"],
            offload_src="device",
            offload_dst="pinned_host",
        )


def _named(x: Any) -> Any:
    y = ad_checkpoint.checkpoint_name(gnp.sin(x), "a")
    return gnp.sin(y * gnp.cos(y))
