"""Stepped programs: Python runs the control flow, between compiled pieces."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.compilation import Artifact
from gnomon.backends.errors import CompilationFailed
from gnomon.backends.iree import host, host_functions, stepped
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.legalize.control import pieces
from gnomon.backends.iree.legalize.control.forms import Form
from gnomon.backends.iree.steps import Block, Branch, Call, Loop, Piece, from_text, to_text
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.experimental import io_callback
from tests.dialects.random_programs import Dialect, Plain, random_body
from tests.dialects.test_control_flow import draw, interpret
from tests.tolerance import assert_near

# Nested loops of about twenty steps, each of which may double earlier rounding errors.
ROUNDINGS = 2.0**20


class Log:
    """The calls of Python that a program made, in order."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def tell(self, name: str, *values: Any) -> None:
        def note(*given: np.ndarray) -> None:
            self.entries.append((name, *(np.asarray(v).tolist() for v in given)))

        gn.debug.callback(note, *values, ordered=True)

    def take(self) -> list[Any]:
        gn.effects_barrier()
        entries, self.entries = self.entries, []
        return entries


class List:
    """The interface of IREE's lists that `Stepper` needs, for any objects."""

    def __init__(self, *values: Any) -> None:
        # IREE's lists have a capacity.
        self.values = [] if values and isinstance(values[0], int) else list(values)
        self.push_ref = self.values.append

    def get_as_object(self, index: int, kind: Any) -> Any:
        return self.values[index]


@pytest.fixture
def log() -> Iterator[Log]:
    yield Log()


def same(log: Log, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Compare a compiled call with an eager one: the values, and the calls of Python."""
    expected = gn.tree.leaves(function(*arguments))
    told = log.take()
    compiled = gn.jit(function, **options)
    for given, wanted in zip(gn.tree.leaves(compiled(*arguments)), expected, strict=True):
        assert_near(given, wanted, 16, scale=1.0)
    assert log.take() == told
    assert told
    return compiled


def test_steps_are_written_and_read() -> None:
    inner = Block((), (Piece("piece0", (0,), (3, 4)), Call("f0", (), ())), (3,))
    loop = Loop((0, 1), (5, 6), inner, Block((5, 6), (), (6, 5)))
    program = Block((0, 1), (loop, Branch(5, (inner, inner), (7,))), (7, 7))
    assert from_text(to_text(program)) == program


def test_a_value_is_freed_after_its_last_use() -> None:
    class Value:
        pass

    alive: list[weakref.ref[Value]] = []
    counts = []

    def make(given: Any) -> list[Value]:
        counts.append(sum(ref() is not None for ref in alive))
        value = Value()
        alive.append(weakref.ref(value))
        return [value]

    steps = tuple(Call("make", (i,), (i + 1,)) for i in range(4))
    results = List()
    stepped.Stepper(Block((0,), steps, (2,)), None, None, {"make": make}, None)(
        List(Value()), results
    )
    # The operand of each call, and the operand that is a result.
    assert counts == [0, 1, 1, 2]
    del results
    gc.collect()
    assert not any(ref() for ref in alive)


def test_calls_in_nested_control_flow_keep_their_order(log: Log) -> None:
    def program(x: Any, n: Any, empty: Any) -> Any:
        log.tell("start")

        def cond(state: Any) -> Any:
            log.tell("cond", state[0])
            return state[0] < 3

        def step(state: Any) -> Any:
            k, first, second = state
            log.tell("inner", k, first[0])
            return k + 1, second, first * 0.5

        def body(carry: Any, i: Any) -> Any:
            swapped = lax.cond(
                i % 2 == 0,
                lambda: lax.while_loop(cond, step, (i, carry, carry))[1:],
                lambda: (carry + 1, carry),
            )
            asked = io_callback(
                lambda v: (log.entries.append("asked"), v + 1)[1], swapped[0], swapped[0],
                ordered=True,
            )  # fmt: skip
            log.tell("outer", i)
            return asked, (swapped[1].sum(), empty + 1)

        last, stacked = lax.scan(body, x, gnp.arange(4))
        log.tell("between", last)

        def never(i: Any, c: Any) -> Any:
            log.tell("never")
            return c + 1

        unchanged = lax.fori_loop(0, n, never, x)
        plain = lax.fori_loop(0, 5, lambda i, c: c.at[i % 3].add(unchanged[0]), x)
        return last, stacked, unchanged, x, plain, empty

    x = np.arange(1.0, 4.0, dtype=np.float32)
    compiled = same(log, program, x, 0, np.zeros((0, 2), np.float32))
    given = gnp.asarray(x) + 0
    again = gn.jit(program, donate_argnums=0)(given, 0, np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(again[3], x)
    assert given.is_deleted()
    with pytest.raises(ValueError, match="calls Python for debug_callback, io_callback"):
        compiled.lower(x, 0, np.zeros((0, 2), np.float32)).compile(target="cpu").serialize()


def test_transformed_programs_keep_their_order(log: Log) -> None:
    def loss(x: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            log.tell("body", i, c)
            c = lax.cond(i > 1, lambda: (log.tell("branch", c), gnp.sin(c))[1], lambda: c * c)
            return c, c

        return lax.scan(body, x, gnp.arange(3))[1].sum()

    def program(x: Any) -> Any:
        return gn.vmap(loss)(x), gn.grad(loss)(x[0])

    same(log, program, np.array([0.5, 1.5], np.float32))


def test_errors_and_calls_of_the_program_itself(log: Log) -> None:
    def answer(x: np.ndarray) -> np.ndarray:
        if x[0] < 0:
            raise KeyError("negative")
        return x if x[0] == 0 else np.asarray(compiled(x - 1)) + x

    @gn.jit
    def compiled(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return io_callback(answer, x, x, ordered=True) + c

        return lax.fori_loop(0, 2, body, gnp.zeros(4))

    def expected(k: int) -> int:
        return 0 if k == 0 else 2 * (expected(k - 1) + k)

    x = np.ones(4, np.float32)
    for k in (2, 0):
        np.testing.assert_array_equal(compiled(k * x), np.full(4, expected(k)))
    with pytest.raises(KeyError, match="negative"):
        compiled(-x)
    np.testing.assert_array_equal(compiled(x), np.full(4, 2))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """A compiler that refuses every form but the last; returns the forms that it got."""
    given: list[Form] = []
    compile_ = IreeBackend.executable_bytes

    def refuse(self: IreeBackend, artifact: Artifact, **options: Any) -> bytes:
        if artifact.plan.form is not None:
            given.append(artifact.plan.form)
            if artifact.plan.form is not Form.STEPS:
                raise CompilationFailed("refused", diagnostics="", reproducer=None)
        return compile_(self, artifact, **options)

    monkeypatch.setattr(IreeBackend, "executable_bytes", refuse)
    return given


def test_programs_that_the_compiler_refuses_run_in_steps(refused: list[Form]) -> None:
    """Loops that do not count, branches by an index out of range, and host calls in them."""

    def program(x: Any, i: Any) -> Any:
        def body(c: Any) -> Any:
            return gnp.linalg.cholesky(c @ c.T + gnp.eye(9)) + x

        grown = lax.while_loop(lambda c: c.sum() < 150.0, body, x)
        branch = lax.switch(i, [lambda c: c + 1, lambda c: c * 2, lambda c: c.T], grown)
        return branch, lax.scan(lambda c, y: (c + y, c), x[0], x), x

    x = np.tri(9, dtype=np.float32)
    compiled = gn.jit(program)
    for i in (-1, 7):
        for given, wanted in zip(
            gn.tree.leaves(compiled(x, i)), gn.tree.leaves(program(x, i)), strict=True
        ):
            assert_near(given, wanted, 32)
    assert refused[-1] is Form.STEPS and Form.HOST not in refused[1:]


class Interpreted:
    """Pieces that StableHLO's reference interpreter runs on NumPy arrays, without a compiler."""

    def __init__(self, module: ir.Module) -> None:
        self.pieces: dict[str, ir.Module] = {}
        for op in module.body.operations:
            name = ir.StringAttr(op.attributes["sym_name"]).value
            if name.startswith("piece"):
                alone = ir.Module.create(ir.Location.unknown(context()))
                clone = op.operation.clone(ip=ir.InsertionPoint(alone.body))
                clone.attributes["sym_name"] = ir.StringAttr.get("main", context())
                self.pieces[name] = alone
            elif name == "main":
                entries = ir.DictAttr(op.attributes["iree.reflection"])
                self.reflection = {e.name: ir.StringAttr(e.attr).value for e in entries}

    def lookup_function(self, name: str) -> ir.Module:
        return self.pieces[name]

    def invoke(self, piece: ir.Module, arguments: List, results: List) -> None:
        for result in interpret(piece, [np.array(v, order="C") for v in arguments.values]):
            results.push_ref(result)


@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("form", ["order", "every step"])
def test_random_programs_in_steps(form: str, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callbacks run as often as in the program, in its order; the values are right."""
    monkeypatch.setattr(stepped.rt, "VmVariantList", List)
    for room in (stepped, host):
        monkeypatch.setattr(room, "read_view", lambda state, value, type_: value)
    monkeypatch.setattr(host, "_device_copy", lambda state, value: value)
    backend, state, apart = iree_backend("cpu"), cast(Any, None), 0
    for seed in seeds:
        function = random_body(seed, "vvssib", "vvsib", 2, updates=True, calls=True)
        dialect, plain = Dialect(), Plain()
        arguments = [np.asarray(x) for x in draw(np.random.default_rng(seed), "vvssib")]
        expected = function(plain, *arguments)
        program = Program()
        program.add("main", dialect.body(function, "vvssib"), public=True)
        artifact = backend.lower(program)
        module = backend.pipeline.read(artifact)
        ordered = artifact.plan.ordered
        if not pieces.split_into_pieces(
            module, pieces.steps_for_order(ordered) if form == "order" else pieces.every_step
        ):
            continue
        code = Interpreted(module)
        calls = {
            f.name: host._call(f, host.resolve(f.params, artifact.callbacks), state, [])
            for f in host_functions.read_table(code)
        }
        steps = stepped.read_steps(code)
        assert steps is not None
        results = List()
        stepped.Stepper(steps, code, code, calls, state)(List(*arguments), results)
        for result, wanted in zip(results.values, expected, strict=True):
            assert_near(result, np.asarray(wanted), ROUNDINGS, scale=1.0)
        assert_near(dialect.log, plain.log, ROUNDINGS, scale=1.0)
        apart += 1
    assert apart > len(seeds) // 2
