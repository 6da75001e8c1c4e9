"""The number of Python calls grows linearly with the size of the program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

Build = Callable[[int], tuple[Callable[..., Any], Any]]


def chain(step: Callable[[Any, Any], Any]) -> Build:
    """A program of n steps, each a function of the current value and the argument."""

    def build(n: int) -> tuple[Callable[..., Any], Any]:
        def run(x: Any) -> Any:
            y = x
            for _ in range(n):
                y = step(y, x)
            return y

        return run, 1.0

    return build


def gradient(build: Build) -> Build:
    def of(n: int) -> tuple[Callable[..., Any], Any]:
        function, argument = build(n)
        return gn.grad(function), argument

    return of


def nest(n: int) -> tuple[Callable[..., Any], Any]:
    """Jitted functions, each of which calls the previous one."""

    def wrap(inner: Callable[..., Any]) -> Callable[..., Any]:
        wrapped: Callable[..., Any] = gn.jit(lambda x: inner(x) * 1.5)
        return wrapped

    function: Callable[..., Any] = gnp.sin
    for _ in range(n):
        function = wrap(function)
    return function, 1.0


def body_of_a_scan(n: int) -> tuple[Callable[..., Any], Any]:
    step, _ = chain(lambda y, x: gnp.sin(y) + x)(n)
    return lambda x: lax.scan(lambda c, _: (step(c), c), x, None, length=3)[0], 1.0


def branches(n: int) -> tuple[Callable[..., Any], Any]:
    functions = [lambda x, i=i: x * i + x for i in range(n)]
    return lambda x: lax.switch(2, functions, x) + lax.switch(gnp.int32(x), functions, x), 1.0


def choices(n: int) -> tuple[Callable[..., Any], Any]:
    def run(x: Any) -> Any:
        for i in range(n):
            x = gnp.where(i % 3 == 0, gnp.sin(x), x * 1.01 + 0.01)
        return x

    return run, 1.0


PROGRAMS: dict[str, Build] = {
    "additions": chain(lambda y, x: y + x),
    "products": chain(lambda y, x: y * x),
    "squares": chain(lambda y, x: y * y + y),
    "sines": chain(lambda y, x: gnp.sin(y) + x),
    "choices": choices,
    "gradient of additions": gradient(chain(lambda y, x: y * x + y)),
    "gradient of sines": gradient(chain(lambda y, x: gnp.sin(y) + x)),
    "elements of an array": lambda n: (lambda x: sum(x[i] for i in range(n)), gnp.ones(n)),
    "sum of arguments": lambda n: (lambda xs: sum(xs), [1.0] * n),
    "many results": lambda n: (lambda xs: [x * 2 for x in xs], [1.0] * n),
    "a deep tree": lambda n: (lambda x: x, deep(n)),
    "constants": lambda n: (lambda x: sum(gnp.tanh(x * i) for i in range(n)), 1.0),
    "nested jit": nest,
    "gradient of nested jit": gradient(nest),
    "body of a scan": body_of_a_scan,
    "gradient of a scan": gradient(body_of_a_scan),
    "branches": branches,
}


def deep(n: int) -> Any:
    tree: Any = 1.0
    for _ in range(n):
        tree = [tree]
    return tree


def calls(build: Build, n: int) -> int:
    """The number of calls of Python functions in tracing and lowering a program."""
    function, argument = build(n)
    count = 0

    def observe(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        # List comprehensions count as calls, and generators as one call per value.
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        gn.jit(function).trace(argument).lower()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_work_grows_with_the_program(program: str) -> None:
    build = PROGRAMS[program]
    calls(build, 16)  # fill caches
    one, two, three = (calls(build, n) for n in (32, 48, 64))
    assert three - two < 1.3 * (two - one), (one, two, three)


def test_long_sums_do_not_recurse() -> None:
    """A sum of so many terms that one recursive call per term would exceed the limit."""
    function, argument = PROGRAMS["additions"](3000)
    assert gn.jit(function).trace(argument).lower().as_text().count("stablehlo.add") == 3000
