"""Guards of transfers, computation and leaks; and the arrays that are alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.compilation import verified
from tests.backends.numpy_platform import registered

VALUE = np.arange(3, dtype=np.float32)


def refused(direction: str, what: str = "") -> AbstractContextManager[Any]:
    return pytest.raises(RuntimeError, match=f"Disallowed {direction} transfer: {what}")


# ---------------------------------------------------------------------------------------- transfers


def test_transfers_from_the_host() -> None:
    x = gnp.asarray(VALUE)
    f = gn.jit(lambda v: v + 1)
    f(x), f(VALUE)
    implicit: list[Callable[[], Any]] = [
        lambda: f(VALUE), lambda: f.lower(x).compile()(VALUE), lambda: x + VALUE, lambda: VALUE * x,
        lambda: gnp.sin(VALUE), lambda: gnp.asarray(VALUE), lambda: lax.exp(VALUE),
        lambda: gn.vmap(lambda v: v)(VALUE),
    ]  # fmt: skip
    numbers: list[Callable[[], Any]] = [
        lambda: x + 1, lambda: 2 - x, lambda: gnp.float32(1), lambda: gnp.maximum(x, 0.0),
        lambda: gn.jit(lambda v, k: v * k)(x, 2.0), lambda: gn.grad(lambda v: v.sum() * 2)(x),
    ]  # fmt: skip
    with gn.transfer_guard("disallow"):
        for call in implicit:
            with refused("host-to-device", r"a NumPy array float32\["):
                call()
        for call in numbers:
            with refused("host-to-device", "the Python number"):
                call()
        with refused("host-to-device", "a list"):
            gnp.array([1.0])
        # Explicit transfers, constants of programs, and calls that need nothing from the host.
        y = gn.device_put(VALUE)
        assert f(y).tolist() == [1, 2, 3]
        assert gn.jit(lambda v: v + VALUE)(x).tolist() == [0, 2, 4]
        assert float((x * y).sum()) == 5 and x[1] == x[1] and gn.device_get(x)[2] == 2
        gn.random.normal(gn.random.key(0), (2,)), gnp.zeros(3), gnp.arange(3), np.asarray(x)
        gnp.arange(np.int32(3)), gnp.arange(np.array(0), 1, np.float32(0.5)), gnp.iscomplexobj(1j)
        gn.grad(lambda v: (v * v).sum())(x), gn.nn.gelu(x), gnp.var(x), gnp.tril(gnp.outer(x, x))
        gnp.repeat(x, 2), gnp.tile(x, 2), gnp.roll(x, 1)
    with gn.transfer_guard("disallow_explicit"), refused("host-to-device", "a NumPy array"):
        gn.device_put(VALUE)
    f(VALUE)


def test_between_devices() -> None:
    with registered("fake") as backend:
        first, second = backend.devices()
        host, x = gnp.asarray(VALUE), gn.device_put(VALUE, first)
        f = gn.jit(lambda v: v * v)
        there = gn.jit(lambda v: v * v, device=second)
        f(x), there(x), x + host
        reads: list[Callable[[], Any]] = [
            lambda: float((x * x)[1]), lambda: np.asarray(x * x), lambda: repr(x * x),
            lambda: bool((x * x)[0]), lambda: (x * x).tolist(),
            lambda: (x * x).copy_to_host_async(),
        ]  # fmt: skip
        with gn.transfer_guard_device_to_host("disallow"):
            for call in reads:
                with refused("device-to-host", "float32|bool"):
                    call()
            assert gn.device_get(f(x)).tolist() == [0, 1, 4]
            x + host, x + 1, there(x), gn.device_put(x, second)
        with gn.transfer_guard_device_to_device("disallow"):
            with refused("device-to-device", r"float32\[3\] on FakeDevice"):
                there(x)
            with refused("device-to-device"):
                gn.jit(lambda v: v + 1, backend="cpu")(x)
            assert there(gn.device_put(x, second)).tolist() == [0, 1, 4]
            np.asarray(x * x), x + host
        with gn.transfer_guard_host_to_device("disallow"):
            for call in (
                lambda: x + host, lambda: gn.jit(gnp.add)(x, host), lambda: x * 2.0,
                lambda: gn.jit(gnp.add)(x, VALUE),
            ):  # fmt: skip
                with refused("host-to-device"):
                    call()
            assert float(gn.jit(lambda v: (v + host).sum())(x)) == 6  # a constant of the program
            there(x), gn.device_put(host, second)
        with gn.transfer_guard("disallow_explicit"):
            for call in (lambda: gn.device_put(x, second), lambda: gn.device_get(f(x))):
                with pytest.raises(RuntimeError, match="Disallowed device-to-"):
                    call()
        with gn.transfer_guard("disallow"), gn.transfer_guard_device_to_host("allow"):
            assert f(x).tolist() == [0, 1, 4]
        gn.clear_caches()


def test_levels_of_the_guard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gnomon.transfer_guard")
    with gn.transfer_guard("log"):
        gn.device_put(VALUE)
        assert not caplog.messages
        gnp.sin(VALUE)
        assert caplog.messages == ["host-to-device transfer: a NumPy array float32[3]"]
    with gn.transfer_guard("log_explicit"):
        gn.device_put(VALUE)
    assert len(caplog.messages) == 2
    seen = []
    with gn.transfer_guard("disallow"):
        worker = threading.Thread(target=lambda: seen.append(gnp.sin(VALUE)))
        worker.start()
        worker.join()
    assert len(seen) == 1  # a guard affects its own thread only
    gn.config.update("jax_transfer_guard", "disallow")
    try:
        assert gn.config.jax_transfer_guard_device_to_host == "disallow"
        with gn.transfer_guard_host_to_device("allow"):
            gnp.sin(VALUE)
        with gn.transfer_guard("allow"):
            gnp.sin(VALUE)
        with refused("host-to-device"):
            gnp.sin(VALUE)
    finally:
        gn.config.update("jax_transfer_guard", None)
    with pytest.raises(ValueError, match="takes None or one of 'allow', 'log'"):
        gn.transfer_guard("forbid").__enter__()


# --------------------------------------------------------------------------------- other options


def test_leaked_tracers() -> None:
    kept: list[Any] = []

    def leaks(x: Any) -> Any:
        kept.append(x * 2)
        return x

    def clean(x: Any) -> Any:
        y, _ = lax.scan(lambda c, v: (c * v, gn.vmap(gnp.sin)(x)), x[0], x)
        g, aux = gn.grad(lambda v: ((v * v).sum(), {"v": v, "n": 3}), has_aux=True)(x)
        return y, g, aux["v"], gn.jvp(gnp.sin, (x,), (x,)), gn.linearize(gnp.sin, x)[1](x)

    x = gnp.asarray(VALUE)
    with gn.checking_leaks():
        gn.jit(clean).lower(x)
        clean(x)
        for trace, call in (
            ("jit of leaks", lambda: gn.jit(leaks)(x)),
            ("vmap of leaks", lambda: gn.vmap(leaks)(x)),
            ("grad of leaks", lambda: gn.grad(leaks)(1.0)),
            ("scan of", lambda: lax.scan(lambda c, v: (c, leaks(v)), 0.0, x)),
            ("jit of leaks", lambda: gn.jit(lambda x: kept.append(leaks) or gn.jit(leaks)(x))(x)),
        ):
            with pytest.raises(gn.errors.UnexpectedTracerError, match=f"Leaked trace: {trace}"):
                call()
            kept.clear()
    with gn.check_tracer_leaks(False):
        gn.vmap(leaks)(x)


def test_no_execution() -> None:
    x = gnp.asarray(VALUE)
    f = gn.jit(lambda v: v + 1)
    compiled = f.lower(x).compile()
    f(x)
    ran: list[int] = []
    with gn.no_execution():
        for call in (
            lambda: f(x), lambda: compiled(x), lambda: x + x, lambda: gnp.sum(x),
            lambda: gn.grad(lambda v: (v * v).sum())(x), lambda: lax.map(gnp.sin, x),
            lambda: gn.debug.callback(lambda: ran.append(1)),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match=r"tried to execute .* 'no_execution' is set"):
                call()
        f.lower(x).compile(), gn.make_jaxpr(f)(x), gn.eval_shape(f, x), np.asarray(x)
    assert f(x).tolist() == [1, 2, 3] and not ran


def test_programs_are_verified_after_each_pass() -> None:
    def f(x: Any) -> Any:
        y, _ = lax.scan(lambda c, v: (gnp.where(c > 0, c * v, c), None), x[0], x)
        return lax.cond(y > 0, gnp.sin, gnp.cos, y) + gnp.sort(x)[0]

    with gn.enable_checks():
        gn.jit(gn.vmap(gn.grad(f))).lower(np.ones((2, 3), np.float32))
    with verified(), gn.enable_checks(False):
        gn.jit(f).lower(VALUE)


def test_sums_of_short_floats() -> None:
    short = gnp.ones((3, 1), gnp.bfloat16)
    with gn.allow_f16_reductions(False):
        with pytest.raises(ValueError, match=r"reduce_sum of bfloat16\[3,1\] is not allowed"):
            lax.reduce_sum(short, (0,))
        assert lax.reduce_sum(short, (1,)).shape == (3,)
        assert gnp.sum(short) == 3 and lax.reduce_max(short, (0, 1)) == 1
    lax.reduce_sum(short, (0,))


def test_live_arrays_and_environment_info(capsys: pytest.CaptureFixture[str]) -> None:
    x, gone = gnp.asarray(VALUE), gnp.asarray(VALUE)
    gone.delete()
    alive = gn.live_arrays()
    assert any(y is x for y in alive) and not any(y is gone for y in alive)
    with registered("fake") as backend:
        y = gn.device_put(VALUE, backend.devices()[0])
        (found,) = gn.live_arrays("fake")
        assert found is y and not any(z is y for z in gn.live_arrays("cpu"))
    text = gn.print_environment_info(return_string=True)
    assert text is not None and f"numpy: {np.__version__}" in " ".join(text.split())
    gn.print_environment_info()
    assert capsys.readouterr().out == text + "\n"
    assert gn.float0 is gn.dtypes.float0
