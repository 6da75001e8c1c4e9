"""Sessions find planted errors of functions that live on, shrink them, and run."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pytest

from gnomon._compilation import identity_map
from gnomon._tracing import stateful
from gnomon.tools.fuzz.__main__ import main
from gnomon.tools.fuzz.sessions.derivations import (
    DERIVATIONS,
    LOOPS,
    ORIGINS,
    SCALAR,
    VECTOR,
    Function,
)
from gnomon.tools.fuzz.sessions.drawing import Call, Session, Step, draw
from gnomon.tools.fuzz.sessions.exploring import Settings, explore, reduced, script
from gnomon.tools.fuzz.sessions.running import Failure, check, evaluated
from tests.sample import sample

X = "gnp.array([1, 2, 3], np.float32)"
ENERGY = Function("", "energy", SCALAR)
READS = Function("", "scaled_energy", SCALAR, reads=True)
GRADIENT = Function("", "gn.grad(energy)", VECTOR)


def session(*steps: tuple[str, Function] | str) -> Session:
    """A session of functions, with the text of each, of statements, and of calls by name."""
    functions: dict[str, Function] = {}
    made = []
    for step in steps:
        if not isinstance(step, str):
            name = f"f{len(functions)}"
            functions[name] = step[1]
            made.append(Step(step[0], name))
        elif step in functions:
            made.append(Step(calls=(Call(step, X),)))
        else:
            value = float(step[7:-1]) if step.startswith("change") else None
            made.append(Step(step, value=value))
    return Session(tuple(made), functions)


@pytest.fixture(autouse=True)
def without_compilation() -> Iterator[None]:
    with evaluated():
        yield


def test_a_seed_gives_one_session() -> None:
    assert draw(3) == draw(3) != draw(4)
    drawn = [draw(seed, loops=loops) for seed in range(200) for loops in (False, True)]
    texts = [step.text for one in drawn for step in one.steps if step.name]
    for function in (*ORIGINS, *LOOPS):
        assert function.text in texts
    joined = " ".join(texts)
    for derivation in DERIVATIONS:
        assert derivation.text.partition("{")[0] in joined, f"{derivation.text} is not drawn"


def test_only_functions_that_keep_traces_may_be_stale() -> None:
    traced = READS._replace(traced=True)
    jitted = "gn.jit(scaled_energy)"
    steps = ("f0", "change(3.0)", "f0")
    assert not check(session(("scaled_energy", READS), *steps)).failures
    assert not check(session((jitted, traced), *steps)).failures
    (failure,) = check(session((jitted, READS), *steps)).failures
    assert failure.detail == "gives 28.0 of float32, must give 42.0 of float32"
    # No trace outlives `clear_caches`.
    cleared = ("change(3.0)", "gn.clear_caches()", "f0")
    assert not check(session((jitted, traced), "f0", *cleared)).failures
    assert check(session(("lambda x: 2.0 * energy(x)", traced), "f0", *cleared)).failures


def test_types_and_errors_are_compared() -> None:
    for text in ("lambda x: int(energy(x))", "lambda x: energy(x)[None]", "lambda x: x.missing"):
        assert len(check(session((text, ENERGY), "f0")).failures) == 1
    missing = ENERGY._replace(meaning="lambda x: x.missing")
    found = check(session(("gn.jit(lambda x: x.missing)", missing), "f0"))
    assert not found.failures and found.errors == 1


def test_results_that_change_later_are_failures() -> None:
    text = "(lambda total: lambda x: np.add(total, 1, out=total))(np.zeros(3))"
    ones = GRADIENT._replace(meaning="lambda x: np.ones(3)")
    first, second = check(session((text, ones), "f0", "f0")).failures
    assert "gave [1.0, 1.0, 1.0] of float64, which changed to [2.0, 2.0, 2.0]" in first.detail
    assert "gives [2.0, 2.0, 2.0] of float64, must give [1.0, 1.0, 1.0]" in second.detail


def test_arguments_that_change_are_failures() -> None:
    name = "f0"
    call = Call(name, "kept([1, 2, 3], np.float32)")
    steps = (
        Step("energy", name),
        Step(calls=(call,)),
        Step("_arrays.update({('[1]', 0): gnp.ones(2)})"),
    )
    (failure,) = check(Session(steps, {name: ENERGY})).failures
    assert "no longer has the values" in failure.detail


# ----------------------------------------------------------------------------------- planted errors


@pytest.mark.slow
def test_shared_programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper that finds the programs of the wrapped function, as it once did."""
    steps = (("gn.jit(energy)", ENERGY), ("gn.jit(gn.grad(f0))", GRADIENT), "f0", "gc.collect()")
    tested = session(*steps, "f1", "f0")
    assert not check(tested).failures
    monkeypatch.setattr(identity_map, "_identity", lambda function: function.__qualname__)
    failure, *_ = check(tested).failures
    assert failure.meaning == "gn.grad(energy)"
    small, again = reduced(tested, failure)
    assert [step.text or step.calls[0].name for step in small.steps] == [
        "gn.jit(energy)",
        "gn.jit(gn.grad(f0))",
        "f0",
        "f1",
    ]
    text = script(small, again)
    monkeypatch.undo()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(text, {})
    assert "14.0" in printed.getvalue() and "[2. 4. 6.]" in printed.getvalue()


def test_shared_rules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = session(
        ("with_jvp(energy, 3.0)", ENERGY),
        ("gn.grad(f0)", GRADIENT._replace(meaning="gn.grad(with_jvp(energy, 3.0))")),
        ("jvp_rule(copied(f0), 5.0)", ENERGY),
        "f1",
    )
    assert not check(tested).failures
    monkeypatch.setattr(stateful.StatefulFunction, "__copy__", lambda self: self)
    (failure,) = check(tested).failures
    assert "[10.0, 20.0, 30.0]" in failure.detail


def test_a_failure_that_does_not_come_again_is_kept() -> None:
    tested = session(("energy", ENERGY), "f0")
    whole, failure = reduced(tested, Failure("f0(x)", "energy", "gives 3, must give 4"))
    assert whole is tested and "once" in failure.detail


# -------------------------------------------------------------------------------------------- seeds


def test_sessions_agree() -> None:
    report = explore(sample(range(24), 8, __name__), Settings(compiles=False))
    assert not report.findings, "\n".join(report.findings)
    assert report.sessions >= 8 and report.calls > 100


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--evaluated", "--sessions", "300"], ["--sessions", "60"]])
def test_many_sessions_agree(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "100", *more])
    assert not status, capsys.readouterr().out


@pytest.mark.exhaustive
def test_ten_thousand_sessions_agree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "1000", "--sessions", "10000", "--evaluated"])
    assert not status, capsys.readouterr().out
