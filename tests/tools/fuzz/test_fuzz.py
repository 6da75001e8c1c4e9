"""The fuzzer finds planted errors, ignores roundings, reduces failures, and runs."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import gnomon.numpy as gnp
import gnomon.scipy.linalg as slinalg
from gnomon.tools.fuzz import (
    batches,
    catalog,
    checking,
    generating,
    judging,
    nested,
    oracle,
    session,
)
from gnomon.tools.fuzz.__main__ import main
from gnomon.tools.fuzz.batches import Seeded, check_batch
from gnomon.tools.fuzz.checking import Counts, Failure, check, known_difference, reference
from gnomon.tools.fuzz.generating import Generator
from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.operands import Cell, RefusedError
from gnomon.tools.fuzz.program import (
    Array,
    Block,
    Operand,
    Program,
    Splat,
    Statement,
    Variable,
    cleaned,
    combined,
)
from gnomon.tools.fuzz.reducing import reduce
from gnomon.tools.fuzz.reporting import reproducer
from gnomon.tools.fuzz.rules import Rule
from gnomon.tools.fuzz.running import JAX, Library, Outcome, message, run, run_batch
from gnomon.tools.fuzz.session import Settings, explore, explore_isolated


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
    first, second = Generator(3).program(), Generator(3).program()
    assert first == second
    assert first != Generator(4).program()
    compile(first.source(), "<fuzz>", "exec")


@pytest.mark.parametrize("family", catalog.FAMILIES)
def test_rules_give_statements(family: str) -> None:
    """A template with a mistake would be refused each time without being noticed."""
    _, rules = catalog.FAMILIES[family]
    refused = {rule.template: errors for rule in rules if (errors := refusals(rule))}
    assert not refused


def refusals(rule: Rule) -> list[str]:
    """Why a rule was refused each time; empty if it produced a statement."""
    errors = []
    for seed in range(30):
        generator = Generator(seed)
        generator.statements._families = {"one": (1, [rule])}
        try:
            with generating._generating(generator._x64):
                statement = generator.statements.statement(Cell("a"))
        except RefusedError as error:
            errors.append(str(error))
            continue
        assert len(statement.targets) == rule.results
        return []
    return errors


@pytest.mark.parametrize("kind", sorted(set(nested.NESTED)))
def test_nested_functions_are_made(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "NESTED", (kind,))
    for seed in range(60):
        generator = Generator(seed)
        with contextlib.suppress(RefusedError), generating._generating(generator._x64):
            assert generator.nested.statement(Cell("a")).blocks
            return
    pytest.fail("refused each time")


def outcome(value: Any) -> Outcome:
    return Outcome((np.asarray(value),), (False,))


def test_judges_by_the_effect_of_roundings() -> None:
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


def test_slow_programs_are_judged_by_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = program("gnp.sin({x})", "{x} - 0.5", size=7)
    expected = reference(tested)
    far = outcome(expected.values[0] + np.float32(1e-4))
    made: list[int] = []
    evaluated = judging.evaluator_of
    monkeypatch.setattr(judging, "evaluator_of", lambda *a: made.append(1) or evaluated(*a))
    assert Judge(tested, expected).compare(far, 8.0).failure is not None
    assert len(made) == judging.MANY
    made.clear()
    monkeypatch.setattr(judging, "PATIENCE_S", 0.0)
    assert Judge(tested, expected).compare(far, 8.0).failure is not None
    assert len(made) == judging.FEW


def test_ill_conditioned_results_have_wide_tolerances() -> None:
    # All digits of the difference come from roundings.
    tested = program("gnp.exp({x})", "{x} + 1e5", "{x} - 1e5", size=7)
    expected = reference(tested)
    moved = outcome(expected.values[0] + np.float32(1e-2))
    assert Judge(tested, expected).compare(moved, 8.0).failure is None
    # Here no digit comes from roundings.
    tested = program("{x}[::-1]", "{x} * 2", size=7)
    expected = reference(tested)
    moved = outcome(expected.values[0] * np.float32(1 + 1e-5))
    assert Judge(tested, expected).compare(moved, 8.0).failure is not None


def test_results_that_depend_on_a_rounding_are_not_failures() -> None:
    # A number that jumps has a tolerance as wide as the jump.
    tested = program("gnp.sin({x})", "{x} / {x}", "gnp.floor({x})", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(expected.values[0] - 1), 8.0)
    assert verdict.failure is None
    # Results without roundings have no tolerance: one that jumps is undecided.
    tested = program("gnp.sin({x})", "{x} / {x}", "{x} >= 1", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
    assert verdict.failure is None and verdict.undecided == 1
    tested = program("{x} > {x}", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
    assert verdict.failure is not None, "exact results are never undecided"


def test_whether_rounded_numbers_are_equal_is_not_judged() -> None:
    """Perturbed numbers are nearly never equal, so that equality would seem certain to be false."""
    tested = program("gnp.sqrt({x})", "{x} * {x} / {x} == {x}", size=1)
    expected = reference(tested)
    verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
    assert verdict.failure is None and verdict.undecided == 1
    for exact in ("{x} == {x}", "{x} == -{x}", "{x} != {x} + 1"):
        tested = program(exact)
        expected = reference(tested)
        verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
        assert verdict.failure is not None


@pytest.mark.parametrize(
    "extremum", ["gnp.maximum({x} - {x}, -0.0)", "({x} - {x}).at[:].min(-0.0)"]
)
def test_an_extremum_of_zeros_has_either_sign(extremum: str) -> None:
    tested = program(extremum, "1 / {x}")
    expected = reference(tested)
    assert np.isinf(expected.values[0]).all()
    assert Judge(tested, expected).compare(outcome(-expected.values[0]), 8.0).failure is None
    # The sign is known where both zeros have it.
    tested = program("gnp.maximum({x} - {x}, 0.0)", "1 / {x}")
    expected = reference(tested)
    assert Judge(tested, expected).compare(outcome(-expected.values[0]), 8.0).failure is not None


@pytest.mark.parametrize("sum_", ["gnp.sum(-({x} - {x}))", "gnp.cumsum(-({x} - {x}))"])
def test_a_sum_of_negative_zeros_has_either_sign(sum_: str) -> None:
    tested = program(sum_, "1 / {x}")
    expected = reference(tested)
    assert np.isinf(expected.values[0]).all()
    assert Judge(tested, expected).compare(outcome(-expected.values[0]), 8.0).failure is None
    tested = program(sum_.replace("-({x} - {x})", "{x} - {x}"), "1 / {x}")
    expected = reference(tested)
    assert Judge(tested, expected).compare(outcome(-expected.values[0]), 8.0).failure is not None


def test_the_sign_of_a_nan_that_is_computed_is_not_judged() -> None:
    # Whether all or any are negative changes only if all ten signs do.
    for last in ("gnp.signbit({x})", "gnp.all(gnp.signbit({x}))", "gnp.any(gnp.signbit({x}))"):
        tested = program("gnp.arcsin({x} + 2)", last, size=10)
        expected = reference(tested)
        verdict = Judge(tested, expected).compare(outcome(~expected.values[0]), 8.0)
        assert verdict.failure is None and verdict.undecided == 1


def test_reduces_to_the_failing_part() -> None:
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


def test_reproducers_compile_for_the_target() -> None:
    tested = replace(program("{x} * 2", size=3), target="x86-64-v2")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(reproducer(tested, Failure("values", "planted")), {})
    eager, compiled = printed.getvalue().splitlines()
    assert eager == compiled
    assert "target='x86-64-v2'" in reproducer(tested, Failure("values", "planted"))


# --------------------------------------------------------------------------- many programs as one


def test_programs_are_combined() -> None:
    first, second = program("gnp.sin({x})", "{x} + 1"), Generator(3).program()
    whole = combined([replace(first, x64=second.x64, target=second.target), second])
    assert whole.x64 == second.x64 and whole.target == second.target
    results = reference(whole).values
    (expected,) = reference(replace(first, x64=second.x64)).values
    np.testing.assert_array_equal(results[0], expected)
    for result, value in zip(results[1:], reference(second).values, strict=True):
        np.testing.assert_array_equal(result, value)
    assert cleaned(whole) == whole


def members(*programs: Program) -> list[Seeded]:
    return [Seeded(seed, tested) for seed, tested in enumerate(programs)]


def checked(batch: list[Seeded]) -> list[tuple[int, Failure]]:
    """The seeds that fail in one batch."""
    counts = Counts()
    return [(m.seed, f) for m, f in check_batch(batch, jax=False, counts=counts)]


def test_a_program_that_cannot_be_traced_fails_alone() -> None:
    """Eager calls can evaluate the comparison; under jit its value is unknown."""
    untraceable = program("gnp.abs({x}) if {x}[0] > 0 else {x}")
    batch = members(program("gnp.sin({x})"), untraceable, program("gnp.cos({x})"))
    ((seed, failure),) = checked(batch)
    assert seed == 1 and failure.kind == "compile"


def test_programs_that_do_not_compile_as_one_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def refuse_many(library: Library, programs: list[Program]) -> list[Outcome]:
        sizes.append(len(programs))
        if len(programs) > 1:
            return [Outcome(error=ValueError("too many"))] * len(programs)
        return run_batch(library, programs)

    monkeypatch.setattr(batches, "run_batch", refuse_many)
    assert not checked(members(*[program("{x} * 2")] * 3))
    assert sizes == [3, 1, 2, 1, 1]


def test_wrong_results_are_blamed_on_their_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the program is right alone, the batch is reported as unsteady."""

    def corrupt(library: Library, programs: list[Program]) -> list[Outcome]:
        first, second = run_batch(library, programs)
        return [first, replace(second, values=(second.values[0] + 1,))]

    def corrupt_alone(library: Library, tested: Program, *, jitted: bool) -> Outcome:
        outcome = run(library, tested, jitted=jitted)
        return replace(outcome, values=(outcome.values[0] + 1,)) if jitted else outcome

    monkeypatch.setattr(batches, "run_batch", corrupt)
    batch = members(program("{x} * 2"), program("{x} * 3"))
    ((seed, failure),) = checked(batch)
    assert seed == 1 and failure.kind == "unsteady"
    monkeypatch.setattr(checking, "run", corrupt_alone)
    ((seed, failure),) = checked(batch)
    assert seed == 1 and failure.kind == "values"


def test_programs_of_a_crash_are_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[int]] = []

    def events(seeds: list[int], settings: Settings, *_: float) -> Iterator[dict[str, Any]]:
        ran.append(list(seeds))
        yield {"begin": list(seeds)}
        if 2 in seeds and (settings.batch_size == 1 or 1 in seeds):
            yield {"died": "ended with status -11"}
            return
        counters = {"repeated": {}, "jax_refuses": {}, "known": {}}
        yield {"end": list(seeds), "counts": asdict(Counts(programs=len(seeds))), **counters}

    monkeypatch.setattr(session, "_events", events)
    report = explore_isolated(range(4), Settings())
    assert ran == [[0, 1, 2, 3], [0], [1], [2], [3]]
    (finding,) = report.findings.values()
    assert finding.seed == 2 and finding.kind == "crash" and "def f(" in finding.script
    assert report.counts.programs == 3


def test_known_differences_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    # JAX's own results agree with gnomon's in these programs.
    special = tuple(k for k in checking.KNOWN if not (k.op_by_op or k.limit))
    monkeypatch.setattr(checking, "KNOWN", special)
    tested = program("lax.zeta({x}, {x})")
    assert known_difference(tested, Failure("jax values", "nan instead of 0.0 at (1,)"))
    assert not known_difference(tested, Failure("jax values", "2.0 instead of 0.0 at (1,)"))
    assert not known_difference(tested, Failure("values", "nan instead of 0.0 at (1,)"))
    other = program("gnp.sin({x})")
    assert not known_difference(other, Failure("jax values", "nan instead of 0.0 at (1,)"))


def test_refusals_of_narrow_linear_algebra_are_known() -> None:
    narrow = gnp.eye(2, dtype="float16")
    for function in (gnp.linalg.inv, lambda x: slinalg.solve_triangular(x, x)):
        with pytest.raises(NotImplementedError) as caught:
            function(narrow)
        assert known_difference(program("gnp.sin({x})"), Failure("refused", message(caught.value)))


@pytest.mark.slow
def test_a_known_difference_is_explained_by_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    tested = program("gnp.ceil({x})", "gnp.sinc({x})")
    failure = check(tested, jax=True)
    assert failure is not None and failure.kind == "jax values"
    assert known_difference(tested, failure)
    (sinc,) = (one for one in checking.KNOWN if "sinc" in one.source and one.formula)
    other = replace(sinc, formula=sinc.formula.replace("gnp.pi", "3.1"))
    monkeypatch.setattr(checking, "KNOWN", (other,))
    assert not known_difference(tested, failure)


@pytest.mark.slow  # JAX compiles igammac for long
def test_small_values_of_igammac_are_known() -> None:
    pytest.importorskip("jax")
    tested = program("{x} * 1e-5", "lax.igammac({x}, {x} * 3e4)")
    failure = check(tested, jax=True)
    assert failure is not None and failure.kind == "jax values"
    assert known_difference(tested, failure)


@pytest.mark.slow
def test_the_dtype_of_one_angle_is_known() -> None:
    pytest.importorskip("jax")
    tested = program("{x}[0].astype('float16')", "gnp.angle({x})")
    failure = check(tested, jax=True)
    assert failure is not None and failure.kind == "jax types"
    assert known_difference(tested, failure)
    several = replace(failure, detail=failure.detail.replace("()", "(3,)"))
    assert not known_difference(tested, several)


# Programs with other values in JAX, whose functions are called with special operands.
_SPECIAL_OPERANDS = {
    "igamma": ("{x} * 0", "lax.igamma({x}, {x} + 0.5)"),
    "expi": ("{x} * 0", "special.expi({x})"),
    "acosh": ("-1 - {x}", "gn.grad(lambda t: gnp.arccosh(t).sum())({x})"),
    "pinv": ("{x} / 0", "gnp.linalg.pinv(gnp.diag({x}[:2]))"),
    "spence": ("{x} / 0", "special.spence({x})"),
    "convolve": ("gnp.append({x}[:1] / 0, {x}[:1])", "gnp.convolve({x}, gnp.ones(3))"),
}


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(
    "function",
    # JAX compiles some for long.
    [
        pytest.param(f, marks=pytest.mark.slow if f in ("igamma", "expi", "spence") else ())
        for f in _SPECIAL_OPERANDS
    ],
)
def test_special_operands_are_known_only_where_the_others_agree(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    tested = program(*_SPECIAL_OPERANDS[function])
    failure = check(tested, jax=True)
    assert failure is not None and failure.kind == "jax values"
    assert known_difference(tested, failure)
    # The same difference, but the function is still called with the operands.
    unchanged = tuple(replace(k, elsewhere=k.elsewhere and r"\g<0>") for k in checking.KNOWN)
    monkeypatch.setattr(checking, "KNOWN", unchanged)
    assert not known_difference(tested, failure)


@pytest.mark.slow
def test_infinite_transforms_are_known_only_where_they_explain_all() -> None:
    failure = Failure("values", "nan instead of inf at (0,), 1 of 8 wrong")
    # Nothing but the transform of infinite numbers differs.
    tested = program("{x} / 0", "sfft.dct({x})", size=8)
    assert known_difference(tested, failure)
    assert not known_difference(program("{x} / 0", "gnp.sin({x})", size=8), failure)


def test_xla_simplifications_are_known_only_if_jax_agrees_op_by_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jax")
    failure = Failure("jax values", "nan instead of 0.0 at (0,), 1 of 5 wrong")
    tested = program("gnp.sin({x})")
    monkeypatch.setattr(
        checking,
        "KNOWN",
        (replace(checking.KNOWN[0], kind=failure.kind, source="sin", detail="nan", op_by_op=True),),
    )
    assert known_difference(tested, failure)

    def shifted(programs: list[Program], *, jitted: bool) -> list[Outcome]:
        assert not jitted
        return [outcome(reference(p).values[0] + np.float32(1)) for p in programs]

    monkeypatch.setattr(checking, "ask_jax", shifted)
    assert not known_difference(tested, failure)


# ------------------------------------------------------------------------------------- the oracle


@pytest.fixture
def crashing_jax(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A child that dies when it is asked about a program with a cosine."""
    pytest.importorskip("jax")
    oracle._ORACLE.end()
    monkeypatch.setattr(oracle, "_serve", serve_without_cosine)
    yield
    oracle._ORACLE.end()


def serve_without_cosine(pipe: Any) -> None:
    while True:
        programs, _ = pipe.recv()
        if any("gnp.cos" in tested.source() for tested in programs):
            os.abort()
        pipe.send(run_batch(JAX, programs))


@pytest.mark.slow
@pytest.mark.usefixtures("crashing_jax")
def test_a_crash_of_jax_is_an_error_of_jax() -> None:
    """The other programs of the batch are still compared."""
    batch = members(program("gnp.sin({x})"), program("gnp.cos({x})"), program("gnp.exp({x})"))
    counts = Counts()
    ((failed, failure),) = check_batch(batch, jax=True, counts=counts)
    assert failed.seed == 1
    assert failure == Failure("jax refuses", "Crash: JAX's process ended with status -6")
    assert counts.checks == 3 + 2


@pytest.mark.usefixtures("crashing_jax")
def test_jax_is_ended_when_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(oracle, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(oracle, "on_death", told.append)
    (outcome,) = oracle.ask_jax([program("gnp.sin({x})")])
    assert "silent" in str(outcome.error)
    assert told == ["was silent for 0 s"]


# ---------------------------------------------------------------------------------------- seeds


def test_programs_agree() -> None:
    report = explore(range(6), Settings(jax=False))
    assert not report.findings, "\n".join(f.script for f in report.findings.values())
    assert report.counts.programs == 6 and report.counts.checks > 6


@pytest.mark.slow
def test_many_programs_agree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "0", "--programs", "72"])
    assert not status, capsys.readouterr().out


@pytest.mark.exhaustive
def test_a_thousand_programs_agree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "1000", "--programs", "1000"])
    assert not status, capsys.readouterr().out
