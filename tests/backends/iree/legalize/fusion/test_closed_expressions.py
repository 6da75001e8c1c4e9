"""Values made of literals and ramps only are computed early, or get a hidden operand.

Otherwise the compiler copies such an expression into each use, and does not end.
"""

from __future__ import annotations

from typing import Any

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, random
from tests.tolerance import assert_each_near


def draws(shape: tuple[int, ...], step: Any = 0) -> list[Any]:
    """Random numbers of several kinds, each from its own key."""
    first, second, third = random.split(random.key(3), 3)
    return [
        random.normal(first, shape),
        random.uniform(second, shape),
        random.gumbel(random.fold_in(third, step), shape),
        random.bernoulli(second, 0.3, shape),
        random.bits(third, shape),
    ]


def mixed(values: list[Any]) -> Any:
    normal, uniform, gumbel, kept, bits = values
    return gnp.where(kept, normal * uniform, gumbel) + gnp.float32(bits % 7)


def check(f: Any, *args: Any) -> str:
    """Compare ``f`` compiled and evaluated; return its text after the legalization."""
    for got, expected in zip(gn.jit(f)(*args), f(*args), strict=True):
        assert got.dtype == expected.dtype
        # Chains of a dozen roundings at values near ten; in 16 bits the last two show.
        assert_each_near(got, expected, 100 if got.dtype.itemsize > 2 else 2, scale=1.0)
    return str(gn.jit(f).lower(*args).as_text("legalized"))


def test_small_values_are_literals() -> None:
    text = check(lambda x: [x + mixed(draws((4,))), *draws((2, 3)), x * gnp.arange(4)], gnp.ones(4))
    assert "threefry2x32" not in text
    # A short expression is cheaper than the literal of its value.
    assert "gnomon.iota" in text


def test_dtypes() -> None:
    def f(x: Any) -> list[Any]:
        ramp = gnp.arange(6.0).reshape(2, 3)
        for _ in range(6):
            ramp = gnp.sin(ramp) + ramp * ramp[::-1]
        values = [
            *(ramp.astype(d) for d in ("bfloat16", "float16", "int8", "uint16", "bool")),
            lax.complex(ramp, gnp.cos(ramp)) * ramp,
            gnp.zeros((0, 3)) + ramp[:0],
            gnp.full((3,), gnp.inf) * ramp[0] - ramp[0, 0],
        ]
        return [v + x.astype(v.dtype) if v.dtype != bool else v ^ (x > 0) for v in values]

    assert "gnomon.sin" not in check(f, gnp.float32(1.0))


def test_large_values_compile() -> None:
    def f(x: Any) -> list[Any]:
        level = gnp.full(x.shape, 0.3)
        for _ in range(12):
            level = level * level + gnp.sqrt(level) * 0.5
        return [x + mixed(draws(x.shape)), x * level, random.permutation(random.key(0), 20000)]

    assert "threefry2x32" in check(f, gnp.ones((150, 200)))


def test_gradients_of_scans_that_draw() -> None:
    def loss(x: Any) -> Any:
        def body(carry: Any, step: Any) -> tuple[Any, Any]:
            carry = 0.5 * carry + 0.1 * mixed(draws(carry.shape, step)) * gnp.exp(-carry * carry)
            return carry, gnp.sum(gnp.sin(carry))

        carry, sums = lax.scan(body, x, gnp.arange(3))
        return gnp.sum(carry * carry) + gnp.sum(sums)

    def f(small: Any, large: Any) -> list[Any]:
        return [gn.grad(loss)(small), gn.grad(loss)(large)]

    check(f, gnp.linspace(-1, 1, 4), gnp.linspace(-1, 1, 20000))
