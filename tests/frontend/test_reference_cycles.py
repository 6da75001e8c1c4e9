"""Transformations free their objects at once: no garbage waits for the collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


def f(x: Any) -> Any:
    return gnp.sin(x) * x


def total(x: Any) -> Any:
    return f(x).sum()


def product(x: Any) -> Any:
    return lax.scan(lambda carry, y: (carry * y, carry), 1.0, x)[0]


def called_back(x: Any) -> Any:
    return gn.pure_callback(np.sinc, gn.ShapeDtypeStruct(x.shape, x.dtype), x)


X = np.ones(3, np.float32)
jitted = gn.jit(f)

CASES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda x: gn.jit(lambda y: f(y))(x),
    "grad": gn.grad(total),
    "grad of jit": gn.grad(lambda x: jitted(x).sum()),
    "jit of grad": lambda x: gn.jit(gn.grad(lambda y: total(y)))(x),
    "jvp": lambda x: gn.jvp(f, (x,), (x,)),
    "vjp": lambda x: gn.vjp(f, x)[1](x),
    "linearize": lambda x: gn.linearize(f, x)[1](x),
    "linear_transpose": lambda x: gn.linear_transpose(lambda y: 2 * y, x)(x),
    "hessian": gn.hessian(total),
    "vmap": gn.vmap(f),
    "checkpoint": gn.grad(lambda x: gn.checkpoint(total)(x)),
    "scan": product,
    "jit of grad of scan": lambda x: gn.jit(gn.grad(lambda y: product(y)))(x),
    "cond": lambda x: lax.cond(True, f, f, x),
    "while_loop": lambda x: lax.while_loop(lambda y: y[0] < 3, lambda y: y + 1, x),
    "callback": lambda x: gn.jit(lambda y: called_back(y))(x),
    "make_jaxpr": gn.make_jaxpr(f),
    "eval_shape": lambda x: gn.eval_shape(f, x),
    "compile": lambda x: gn.jit(lambda y: f(y)).lower(x).compile(),
}


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def garbage_of(names: Iterable[str]) -> int:
    """The number of objects that the collector finds after some cases."""
    x = gnp.asarray(X)
    for name in names:
        CASES[name](x)
    return gc.collect()


@pytest.mark.parametrize("compiler", ["iree", "llvm", "auto"])
def test_nothing_waits_for_the_collector(compiler: str, without_collector: None) -> None:
    gn.config.update("gnomon_cpu_compiler", compiler)
    # LLVM's programs call Python through ctypes, whose functions and types are cycles.
    names = [name for name in CASES if compiler == "iree" or name != "callback"]
    garbage_of(names)  # imports and caches of the first calls
    # The collector walks all objects of the process, so it is asked about all cases at once.
    assert garbage_of(names) == 0, {name: garbage_of([name]) for name in names}
