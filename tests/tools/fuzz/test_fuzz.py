"""The fuzzer finds what is planted, says nothing of roundings, makes failures small, and runs."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.tools.fuzz import catalog, generating
from gnomon.tools.fuzz.__main__ import main
from gnomon.tools.fuzz.checking import Failure, check, reference
from gnomon.tools.fuzz.generating import Cell, Generator, RefusedError
from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.program import (
    Array,
    Block,
    Operand,
    Program,
    Splat,
    Statement,
    Variable,
    cleaned,
)
from gnomon.tools.fuzz.reducing import reduce
from gnomon.tools.fuzz.reporting import reproducer
from gnomon.tools.fuzz.running import Outcome
from gnomon.tools.fuzz.session import Settings, explore


def program(*texts: str, results: tuple[str, ...] = (), size: int = 5) -> Program:
    """A program of statements on one argument ``x``; each is named ``v0``, ``v1``, ..."""
    statements = []
    for i, text in enumerate(texts):
        name = "x" if i == 0 else f"v{i - 1}"
        operand = Operand(Variable(name))
        types = (((size,), "float32"),)
        statements.append(Statement((f"v{i}",), types, text, (("x", operand),)))
    block = Block(("x",), tuple(statements), results or (f"v{len(texts) - 1}",))
    return Program((("x", Array((size,), "float32", "positive", 1)),), block)


def test_a_seed_gives_one_program() -> None:
    first, second = Generator(3).program(4), Generator(3).program(4)
    assert first == second
    assert first != Generator(4).program(4)
    compile(first.source(), "<fuzz>", "exec")


@pytest.mark.parametrize("family", catalog.FAMILIES)
def test_rules_give_statements(family: str) -> None:
    """A template with a mistake would be refused each time, and nobody would notice."""
    _, rules = catalog.FAMILIES[family]
    refused = {rule.template: errors for rule in rules if (errors := refusals(rule))}
    assert not refused


def refusals(rule: catalog.Rule) -> list[str]:
    """Why a rule was refused each time; empty where it gave a statement."""
    errors = []
    for seed in range(30):
        generator = Generator(seed)
        generator._families = {"one": (1, [rule])}
        try:
            with generating._generating(generator._x64):
                statement = generator.statement(Cell("a"))
        except RefusedError as error:
            errors.append(str(error))
            continue
        assert len(statement.targets) == rule.results
        return []
    return errors


@pytest.mark.parametrize("kind", sorted(set(generating.NESTED)))
def test_nested_functions_are_made(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generating, "NESTED", (kind,))
    for seed in range(60):
        generator = Generator(seed)
        with contextlib.suppress(RefusedError), generating._generating(generator._x64):
            assert generator.nested(Cell("a")).blocks
            return
    pytest.fail("refused each time")


def outcome(value: Any) -> Outcome:
    return Outcome((np.asarray(value),), (False,))


def test_judges_by_what_roundings_do() -> None:
    tested = program("gnp.sin({x})", "{x} - 0.5", size=7)
    expected = reference(tested)
    judge = Judge(tested, expected)
    (exact,) = expected.values
    assert judge.compare(expected, 1.0).failure is None
    near = np.nextafter(exact, np.float32(9))
    assert judge.compare(outcome(near), 8.0).failure is None
    far = exact.copy()
    far[3] += np.float32(1e-4)
    failure = judge.compare(outcome(far), 8.0).failure
    assert failure is not None and failure.startswith("values") and "(3,)" in failure
    assert "types" in str(judge.compare(outcome(exact.astype(np.float16)), 8.0).failure)
    assert "types" in str(judge.compare(outcome(exact[:2]), 8.0).failure)


def test_ill_conditioned_results_have_wide_tolerances() -> None:
    # All digits of the difference come from roundings.
    tested = program("gnp.exp({x})", "{x} + 1e5", "{x} - 1e5", size=7)
    expected = reference(tested)
    moved = outcome(expected.values[0] + np.float32(1e-2))
    assert Judge(tested, expected).compare(moved, 8.0).failure is None
    # Here none do.
    tested = program("{x}[::-1]", "{x} * 2", size=7)
    expected = reference(tested)
    moved = outcome(expected.values[0] * np.float32(1 + 1e-5))
    assert Judge(tested, expected).compare(moved, 8.0).failure is not None


def test_what_hangs_on_a_rounding_is_counted_as_undecided() -> None:
    tested = program("gnp.sin({x})", "{x} / {x}", "gnp.floor({x})", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(expected.values[0] - 1), 8.0)
    assert verdict.failure is None and verdict.undecided in (0, 1)
    tested = program("{x} > {x}", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
    assert verdict.failure is not None, "exact results are never undecided"


def test_reduces_to_what_fails() -> None:
    tested = program("gnp.sin({x})", "{x} * 2", "gnp.exp({x})", "{x} + 1", size=31)
    added = Statement(
        ("w",), (((31,), "float32"),), "gnp.cos({x})", (("x", Operand(Variable("x"))),)
    )
    block = replace(
        tested.block, statements=(*tested.block.statements, added), results=("v3", "w", "v0")
    )
    tested = replace(tested, block=block)

    def fails(candidate: Program) -> Failure | None:
        found = "gnp.exp" in candidate.source()
        return Failure("values", "planted") if found else None

    small, _ = reduce(tested, Failure("values", "planted"), fails=fails)
    assert len(small.block.statements) == 1
    assert len(small.block.results) == 1
    ((_, argument),) = small.arguments
    assert argument.shape == (1,)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(reproducer(small, Failure("values", "planted")), {})
    assert printed.getvalue().count("[2.71828") == 2


def test_dead_statements_go() -> None:
    tested = program("gnp.sin({x})", "gnp.cos({x})", results=("v0",))
    assert cleaned(tested).source() == "def f(x):\n    v0 = gnp.sin(x)\n    return v0"
    splat = (("x", Operand(Splat((3,), "float32"))),)
    constant = Statement(("v0",), (((3,), "float32"),), "{x} + 1", splat)
    tested = replace(tested, block=replace(tested.block, statements=(constant,)))
    assert not cleaned(tested).arguments


def test_errors_are_failures() -> None:
    failure = check(program("{x}.reshape(-1, 2)"), jax=False)
    assert failure is not None and failure.kind == "eager"
    assert check(program("gnp.sin({x})", "{x} * 2"), jax=False) is None


def test_programs_agree() -> None:
    report = explore(range(1), Settings(cells=4, jax=False))
    assert not report.findings, "\n".join(f.script for f in report.findings.values())
    assert report.counts.programs == 1 and report.counts.checks > 4


@pytest.mark.slow
def test_many_programs_agree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "0", "--programs", "20", "--no-jax"])
    assert not status, capsys.readouterr().out


@pytest.mark.exhaustive
def test_many_programs_agree_with_jax(capsys: pytest.CaptureFixture[str]) -> None:
    """What differs is read by hand: some of it is JAX's."""
    status = main(["--seed", "0", "--programs", "300"])
    assert not status, capsys.readouterr().out
