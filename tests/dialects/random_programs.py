"""Random programs with nested control flow, expressed in several languages from one seed.

A program is a function ``run(lang, *values)``, which draws the same ops from its seed for every
``lang``. `Plain` runs it with NumPy and Python's own loops and branches and serves as the
definition. `Dialect` emits ops of the dialect, and `Jax` calls jax.lax.

Values have a kind: ``v`` f64[3], ``s`` f64[], ``i`` i32[], ``b`` bool[]; with `Traits.wide` also
``u`` u32[3], ``m`` bool[3], ``h`` bf16[3], ``z`` f64[0].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.emit import broadcast_scalar, constant, ops, slice_along
from gnomon.dialects.indexing.windows import Dimensions
from gnomon.dialects.types import TensorType, bfloat16

Run = Callable[..., list[Any]]

SIZE = 3
TYPES = {
    "v": TensorType((SIZE,), np.dtype(np.float64)),
    "s": TensorType((), np.dtype(np.float64)),
    "i": TensorType((), np.dtype(np.int32)),
    "b": TensorType((), np.dtype(np.bool_)),
    "u": TensorType((SIZE,), np.dtype(np.uint32)),
    "m": TensorType((SIZE,), np.dtype(np.bool_)),
    "h": TensorType((SIZE,), bfloat16),
    "z": TensorType((0,), np.dtype(np.float64)),
}


@dataclass(frozen=True)
class Traits:
    """The contents of a random program in addition to arithmetic, scans and branches.

    Attributes:
      loops: while loops, which have no reverse mode.
      updates: reads and updates of vector elements at computed indices.
      wide: scatters, and unsigned, 16-bit, bool and empty arrays.
      calls: calls of Python functions, with used and with unused results.
    """

    loops: bool = True
    updates: bool = False
    wide: bool = False
    calls: bool = False


def _answer(s: Any) -> np.ndarray:
    """The result of the Python function that programs call."""
    return np.asarray(np.sin(s) + 0.25)


class Plain:
    """NumPy and Python: the definition.

    ``log`` records the arguments of the program's calls of Python, in order.
    """

    def __init__(self) -> None:
        self.log: list[float] = []

    def literal(self, value: np.ndarray) -> Any:
        return value

    def sin(self, x: Any) -> Any:
        return np.sin(x)

    def mul(self, x: Any, y: Any) -> Any:
        return x * y

    def add(self, x: Any, y: Any) -> Any:
        return np.asarray(x + y, x.dtype)

    def less(self, x: Any, y: Any) -> Any:
        return np.asarray(x < y)

    def both(self, x: Any, y: Any) -> Any:
        return np.asarray(x & y)

    def negate(self, x: Any) -> Any:
        return np.asarray(~x)

    def total(self, x: Any) -> Any:
        return np.asarray(x.sum())

    def spread(self, x: Any) -> Any:
        return np.broadcast_to(x, (SIZE,))

    def real(self, i: Any) -> Any:
        return np.asarray(i, np.float64)

    def integer(self, b: Any) -> Any:
        return np.asarray(b, np.int32)

    def select(self, b: Any, x: Any, y: Any) -> Any:
        return np.where(b, x, y)

    def write(self, v: Any, s: Any, i: Any) -> Any:
        v = v.copy()
        v[min(max(int(i), 0), SIZE - 1)] = s
        return v

    def read(self, v: Any, i: Any) -> Any:
        return np.asarray(v[min(max(int(i), 0), SIZE - 1)])

    def shift(self, v: Any, i: Any) -> Any:
        start = min(max(int(i), 0), 1)
        new = v.copy()
        new[start : start + SIZE - 1] = v[1:]
        return new

    def scatter(self, v: Any, i: Any, j: Any, s: Any, t: Any) -> Any:
        v = v.copy()
        for at, value in ((i, s), (j, t)):
            if 0 <= at < SIZE:
                v[at] += value
        return v

    def bits(self, i: Any) -> Any:
        return np.full(SIZE, i, np.int32).astype(np.uint32) + np.arange(SIZE, dtype=np.uint32)

    def half(self, v: Any) -> Any:
        return v.astype(bfloat16)

    def larger(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def choose(self, m: Any, x: Any, y: Any) -> Any:
        return np.where(m, x, y)

    def tell(self, s: Any) -> None:
        self.log.append(float(s))

    def ask(self, s: Any) -> Any:
        self.log.append(float(s))
        return _answer(s)

    def switch(self, index: Any, branches: Sequence[Run], kinds: str, values: Any) -> list[Any]:
        return branches[min(max(int(index), 0), len(branches) - 1)](self, *values)

    def scan(
        self,
        body: Run,
        kinds: tuple[str, str, str],
        consts: Any,
        carry: Any,
        xs: Any,
        length: int,
        reverse: bool,
        unroll: int = 1,
    ) -> list[Any]:
        rows: list[list[Any]] = [[] for _ in range(length)]
        for i in reversed(range(length)) if reverse else range(length):
            out = body(self, *consts, *carry, *(x[i] for x in xs))
            carry, rows[i] = out[: len(carry)], out[len(carry) :]
        return [*carry, *(np.stack(column) for column in zip(*rows, strict=True))]

    def loop(
        self, cond: Run, body: Run, kinds: tuple[str, str], consts: Any, carry: Any
    ) -> list[Any]:
        while cond(self, *consts, *carry)[0]:
            carry = body(self, *consts, *carry)
        return list(carry)


class Dialect:
    """Ops of the dialect, at the current insertion point.

    ``log`` records the arguments of the program's calls of Python at run time.
    """

    def __init__(self) -> None:
        self.log: list[float] = []
        self.told = Callback(lambda s: (self.log.append(float(s)), ())[1])
        self.asked = Callback(lambda s: (self.log.append(float(s)), [_answer(s)])[1])

    def literal(self, value: np.ndarray) -> Any:
        return constant(value)

    def sin(self, x: Any) -> Any:
        return ops.sin(x)

    def mul(self, x: Any, y: Any) -> Any:
        return ops.mul(x, y)

    def add(self, x: Any, y: Any) -> Any:
        return ops.add(x, y)

    def less(self, x: Any, y: Any) -> Any:
        return ops.lt(x, y)

    def both(self, x: Any, y: Any) -> Any:
        return ops.and_(x, y)

    def negate(self, x: Any) -> Any:
        return ops.not_(x)

    def total(self, x: Any) -> Any:
        return ops.reduce_sum(x, axes=(0,))

    def spread(self, x: Any) -> Any:
        return broadcast_scalar(x, (SIZE,))

    def real(self, i: Any) -> Any:
        return ops.convert(i, dtype=np.dtype(np.float64))

    def integer(self, b: Any) -> Any:
        return ops.convert(b, dtype=np.dtype(np.int32))

    def select(self, b: Any, x: Any, y: Any) -> Any:
        return ops.select(b, x, y)

    def write(self, v: Any, s: Any, i: Any) -> Any:
        return ops.dynamic_update_slice(v, ops.reshape(s, shape=(1,)), i)

    def read(self, v: Any, i: Any) -> Any:
        return ops.reshape(ops.dynamic_slice(v, i, sizes=(1,)), shape=())

    def shift(self, v: Any, i: Any) -> Any:
        return ops.dynamic_update_slice(v, slice_along(v, 0, 1, SIZE), i)

    def scatter(self, v: Any, i: Any, j: Any, s: Any, t: Any) -> Any:
        indices = [ops.reshape(x, shape=(1, 1)) for x in (i, j)]
        updates = [ops.reshape(x, shape=(1,)) for x in (s, t)]
        return ops.scatter_add(
            v,
            ops.concatenate(*indices, dimension=0),
            ops.concatenate(*updates, dimension=0),
            **Dimensions((), (0,), (0,), (), ()).as_scatter(),
            mode="drop",
            unique_indices=False,
            indices_are_sorted=False,
        )

    def bits(self, i: Any) -> Any:
        wide = broadcast_scalar(ops.convert(i, dtype=np.dtype(np.uint32)), (SIZE,))
        return ops.add(wide, constant(np.arange(SIZE, dtype=np.uint32)))

    def half(self, v: Any) -> Any:
        return ops.convert(v, dtype=bfloat16)

    def larger(self, x: Any, y: Any) -> Any:
        return ops.max(x, y)

    def choose(self, m: Any, x: Any, y: Any) -> Any:
        return ops.select(m, x, y)

    def tell(self, s: Any) -> None:
        ops.debug_callback.build([s], {"callback": self.told.number, "ordered": True})

    def ask(self, s: Any) -> Any:
        params = {"callback": self.asked.number, "given": [TYPES["s"]], "ordered": True}
        return ops.io_callback.build([s], params)[0]

    def body(self, run: Run, kinds: str) -> Body:
        return Body.build([TYPES[k] for k in kinds], lambda *values: run(self, *values))

    def switch(self, index: Any, branches: Sequence[Run], kinds: str, values: Any) -> list[Any]:
        bodies = [self.body(branch, kinds) for branch in branches]
        return list(ops.switch(index, *values, bodies=bodies))

    def scan(
        self,
        body: Run,
        kinds: tuple[str, str, str],
        consts: Any,
        carry: Any,
        xs: Any,
        length: int,
        reverse: bool,
        unroll: int = 1,
    ) -> list[Any]:
        return list(
            ops.scan(
                *consts,
                *carry,
                *xs,
                bodies=[self.body(body, "".join(kinds))],
                consts=len(consts),
                carry=len(carry),
                length=length,
                reverse=reverse,
                unroll=unroll,
            )
        )

    def loop(
        self, cond: Run, body: Run, kinds: tuple[str, str], consts: Any, carry: Any
    ) -> list[Any]:
        bodies = [self.body(cond, "".join(kinds)), self.body(body, "".join(kinds))]
        operands = [*consts, *consts, *carry]
        count = len(consts)
        return list(ops.while_(*operands, bodies=bodies, cond_consts=count, body_consts=count))


class Jax:
    """jax.lax."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jnp, self.lax = jnp, jax.lax

    def literal(self, value: np.ndarray) -> Any:
        return self.jnp.asarray(value)

    def sin(self, x: Any) -> Any:
        return self.jnp.sin(x)

    def mul(self, x: Any, y: Any) -> Any:
        return x * y

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def less(self, x: Any, y: Any) -> Any:
        return x < y

    def both(self, x: Any, y: Any) -> Any:
        return x & y

    def negate(self, x: Any) -> Any:
        return ~x

    def total(self, x: Any) -> Any:
        return x.sum()

    def spread(self, x: Any) -> Any:
        return self.jnp.broadcast_to(x, (SIZE,))

    def real(self, i: Any) -> Any:
        return i.astype(np.float64)

    def integer(self, b: Any) -> Any:
        return b.astype(np.int32)

    def select(self, b: Any, x: Any, y: Any) -> Any:
        return self.jnp.where(b, x, y)

    def switch(self, index: Any, branches: Sequence[Run], kinds: str, values: Any) -> list[Any]:
        runs = [lambda *v, branch=branch: branch(self, *v) for branch in branches]
        return self.lax.switch(index, runs, *values)

    def scan(
        self,
        body: Run,
        kinds: tuple[str, str, str],
        consts: Any,
        carry: Any,
        xs: Any,
        length: int,
        reverse: bool,
        unroll: int = 1,
    ) -> list[Any]:
        def step(state: Any, x: Any) -> Any:
            out = body(self, *consts, *state, *x)
            return tuple(out[: len(state)]), tuple(out[len(state) :])

        state, ys = self.lax.scan(
            step, tuple(carry), tuple(xs), length=length, reverse=reverse, unroll=unroll
        )
        return [*state, *ys]

    def loop(
        self, cond: Run, body: Run, kinds: tuple[str, str], consts: Any, carry: Any
    ) -> list[Any]:
        return list(
            self.lax.while_loop(
                lambda state: cond(self, *consts, *state)[0],
                lambda state: tuple(body(self, *consts, *state)),
                tuple(carry),
            )
        )


# ------------------------------------------------------------------------------------- generation


class _Draw:
    """Draws ops from a seed and appends their results to ``values``."""

    def __init__(
        self,
        seed: int,
        lang: Any,
        kinds: str,
        values: Sequence[Any],
        depth: int,
        traits: Traits,
    ) -> None:
        self.traits = traits
        self.rng = np.random.default_rng(seed)
        self.lang = lang
        self.depth = depth
        self.values = list(zip(kinds, values, strict=True))

    def pick(self, kind: str) -> Any:
        """A value of a kind: an existing one or a literal."""
        candidates = [v for k, v in self.values if k == kind]
        if not candidates or self.rng.random() < 0.08:
            return self.lang.literal(self.random_value(kind))
        # Later values are more likely, so that many values depend on control flow.
        at = len(candidates) - 1 - min(self.rng.geometric(0.5) - 1, len(candidates) - 1)
        return candidates[at]

    def random_value(self, kind: str) -> np.ndarray:
        if kind == "b":
            return np.asarray(self.rng.random() < 0.5)
        if kind == "i":
            return np.asarray(self.rng.integers(-2, 4), np.int32)
        type_ = TYPES[kind]
        if kind in "um":
            return np.asarray(self.rng.integers(0, 2, type_.shape), type_.dtype)
        return self.rng.uniform(-1.5, 1.5, type_.shape).astype(type_.dtype)

    def kinds(self, least: int, most: int) -> str:
        among = "vsvsib" + "vumhz" * self.traits.wide
        return "".join(self.rng.choice(list(among), self.rng.integers(least, most + 1)))

    def body(self, takes: str, gives: str) -> Run:
        return _body(int(self.rng.integers(2**31)), takes, gives, self.depth - 1, self.traits)

    def picks(self, kinds: str) -> list[Any]:
        return [self.pick(k) for k in kinds]

    def step(self) -> None:
        """Draw one op."""
        simple = ["sin", "mul", "add", "mix", "less", "total", "spread", "count", "real", "select"]
        simple += ["write", "write", "read", "shift"] * self.traits.updates
        simple += ["scatter", "scatter", "sum", "larger", "choose", "bits", "half", "mask"] * (
            self.traits.wide
        )
        simple += ["tell", "tell", "ask"] * self.traits.calls
        nested = ["switch", "scan", "scan", "cond"] + ["loop"] * 2 * self.traits.loops
        name = self.rng.choice(nested if self.depth and self.rng.random() < 0.55 else simple)
        kinds, values = getattr(self, f"draw_{name}")()
        self.values.extend(zip(kinds, values, strict=True))

    def draw_sin(self) -> Any:
        kind = self.rng.choice(["v", "s"])
        return kind, [self.lang.sin(self.pick(kind))]

    def draw_mul(self) -> Any:
        kind = self.rng.choice(["v", "s"])
        return kind, [self.lang.sin(self.lang.mul(self.pick(kind), self.pick(kind)))]

    def draw_add(self) -> Any:
        kind = self.rng.choice(["v", "s", "i"])
        return kind, [self.lang.add(self.pick(kind), self.pick(kind))]

    def draw_mix(self) -> Any:
        lang = self.lang
        scaled = lang.mul(self.pick("v"), lang.spread(self.pick("s")))
        return "v", [lang.sin(lang.add(scaled, self.pick("v")))]

    def draw_less(self) -> Any:
        kind = self.rng.choice(["s", "i"])
        test = self.lang.less(self.pick(kind), self.pick(kind))
        return "b", [self.lang.negate(test) if self.rng.random() < 0.3 else test]

    def draw_total(self) -> Any:
        return "s", [self.lang.total(self.pick("v"))]

    def draw_spread(self) -> Any:
        return "v", [self.lang.spread(self.pick("s"))]

    def draw_count(self) -> Any:
        return "i", [self.lang.add(self.pick("i"), self.lang.integer(self.pick("b")))]

    def draw_real(self) -> Any:
        return "s", [self.lang.sin(self.lang.real(self.pick("i")))]

    def draw_select(self) -> Any:
        kind = self.rng.choice(["v", "s", "i", "b"])
        return kind, [self.lang.select(self.pick("b"), *self.picks(kind * 2))]

    def draw_write(self) -> Any:
        return "v", [self.lang.write(*self.picks("vsi"))]

    def draw_read(self) -> Any:
        return "s", [self.lang.read(*self.picks("vi"))]

    def draw_shift(self) -> Any:
        return "v", [self.lang.shift(*self.picks("vi"))]

    def draw_scatter(self) -> Any:
        return "v", [self.lang.scatter(*self.picks("viiss"))]

    def draw_sum(self) -> Any:
        kind = self.rng.choice(["u", "z"])
        return kind, [self.lang.add(self.pick(kind), self.pick(kind))]

    def draw_larger(self) -> Any:
        # These ops are exact in every dtype.
        kind = self.rng.choice(["u", "h", "v", "z"])
        return kind, [self.lang.larger(self.pick(kind), self.pick(kind))]

    def draw_choose(self) -> Any:
        kind = self.rng.choice(["u", "h", "v", "m"])
        return kind, [self.lang.choose(*self.picks("m" + kind * 2))]

    def draw_bits(self) -> Any:
        return "u", [self.lang.bits(self.pick("i"))]

    def draw_half(self) -> Any:
        return "h", [self.lang.half(self.pick("v"))]

    def draw_mask(self) -> Any:
        kind = self.rng.choice(["u", "v"])
        test = self.lang.less(self.pick(kind), self.pick(kind))
        return "m", [self.lang.negate(test) if self.rng.random() < 0.3 else test]

    def draw_tell(self) -> Any:
        self.lang.tell(self.pick("s"))
        return "", []

    def draw_ask(self) -> Any:
        return "s", [self.lang.ask(self.pick("s"))]

    def draw_switch(self) -> Any:
        takes, gives = self.kinds(1, 4), self.kinds(1, 3)
        branches = [self.body(takes, gives) for _ in range(self.rng.integers(1, 4))]
        return gives, self.lang.switch(self.pick("i"), branches, takes, self.picks(takes))

    def draw_cond(self) -> Any:
        takes, gives = self.kinds(1, 4), self.kinds(1, 3)
        branches = [self.body(takes, gives) for _ in range(2)]
        index = self.lang.integer(self.pick("b"))
        return gives, self.lang.switch(index, branches, takes, self.picks(takes))

    def draw_scan(self) -> Any:
        consts, carry = self.kinds(0, 2), self.kinds(1, 4)
        count = int(self.rng.integers(0, 3))
        stacked = int(self.rng.integers(0, 3))
        # Stacked scalars are vectors.
        body = self.body(consts + carry + "s" * count, carry + "s" * stacked)
        values = self.lang.scan(
            body,
            (consts, carry, "s" * count),
            self.picks(consts),
            self.picks(carry),
            self.picks("v" * count),
            SIZE,
            bool(self.rng.random() < 0.5),
            int(self.rng.integers(1, 5)),
        )
        return carry + "v" * stacked, values

    def draw_loop(self) -> Any:
        """A loop of at most five iterations whose condition also depends on a scalar."""
        consts, carry = self.kinds(0, 2), "is" + self.kinds(0, 2)
        inner = self.body(consts + carry, carry[1:])
        before = len(consts)

        def cond(lang: Any, *values: Any) -> list[Any]:
            counter, x = values[before], values[before + 1]
            few = lang.less(counter, lang.literal(np.asarray(4, np.int32)))
            return [lang.both(few, lang.less(x, lang.literal(np.asarray(0.9))))]

        def body(lang: Any, *values: Any) -> list[Any]:
            counter = lang.add(values[before], lang.literal(np.asarray(1, np.int32)))
            return [counter, *inner(lang, *values)]

        # A counter far below the bound would take too long.
        start = self.lang.select(
            self.lang.less(self.pick("i"), self.lang.literal(np.asarray(1, np.int32))),
            self.lang.literal(np.asarray(-1, np.int32)),
            self.pick("i"),
        )
        small = self.lang.less(start, self.lang.literal(np.asarray(-1, np.int32)))
        start = self.lang.select(small, self.lang.literal(np.asarray(2, np.int32)), start)
        values = [start, *self.picks(carry[1:])]
        return carry, self.lang.loop(cond, body, (consts, carry), self.picks(consts), values)


def random_body(
    seed: int,
    takes: str,
    gives: str,
    depth: int,
    loops: bool = True,
    updates: bool = False,
    wide: bool = False,
    calls: bool = False,
) -> Run:
    """A random function from values of the kinds ``takes`` to values of the kinds ``gives``.

    Args:
      seed: determines the program.
      takes, gives: the kinds of arguments and results, one letter each.
      depth: the nesting depth of control flow.
      loops, updates, wide, calls: see `Traits`.
    """
    return _body(seed, takes, gives, depth, Traits(loops, updates, wide, calls))


def _body(seed: int, takes: str, gives: str, depth: int, traits: Traits) -> Run:
    def run(lang: Any, *values: Any) -> list[Any]:
        draw = _Draw(seed, lang, takes, values, depth, traits)
        for _ in range(draw.rng.integers(3, 6)):
            draw.step()
        # Results may be arguments, so that carries pass through or swap.
        return draw.picks(gives)

    return run


__all__ = ["SIZE", "TYPES", "Dialect", "Jax", "Plain", "random_body"]
