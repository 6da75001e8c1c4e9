"""Checks a program: jitted as eager, and as JAX."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.program import Program, cleaned
from gnomon.tools.fuzz.running import GNOMON, JAX, Library, Outcome, run

# How many times what the roundings of a program move an element by it may be off. The ways to run
# it differ in the order of sums and in the polynomials of functions; those of JAX are other ones.
OWN_FACTOR, JAX_FACTOR = 8.0, 64.0


@dataclass(frozen=True)
class Known:
    """A failure that is none: JAX is to blame, or it is a limit that gnomon declares.

    Attributes:
      kind: of the failure.
      source: a pattern of the program's source, as narrow as the cause.
      detail: a pattern of the failure's detail.
      reason: why it is no finding.
    """

    kind: str
    source: str
    detail: str
    reason: str


KNOWN = (
    Known(
        "compile",
        "",
        r"^UnsupportedOnTarget: .* on target 'x86-64-v",
        "an op has no form on a target without a library of functions, and the error says so",
    ),
    Known(
        "refused",
        "",
        r"^NotImplementedError: lax.linalg.\w+: unsupported dtype \w+; factor in float32",
        "linear algebra in 16-bit floats is refused, and the error says so",
    ),
    Known(
        "jax values",
        r"\b(zeta|polygamma)\(",
        r"nan instead of",
        "JAX's zeta of a large exponent is nan, where SciPy's and ours have a value",
    ),
    Known(
        "jax values",
        r"\bexpi\(",
        "nan instead of -inf",
        "JAX's expi is nan at 0, where SciPy's and ours are -inf",
    ),
    Known(
        "jax values",
        r"\bclz\(",
        r"-\d+ instead of 0",
        "XLA folds clz of negative constants to a negative number",
    ),
    Known(
        "jax values",
        r"\bsinc\(",
        "",
        "JAX's sinc rounds pi times its argument, and keeps no digit near integers; ours does",
    ),
)


@dataclass(frozen=True)
class Failure:
    """What is wrong with a program.

    Attributes:
      kind: ``"eager"`` (it raises), ``"compile"`` (jitted, it raises), ``"types"``, ``"values"``,
        ``"jax types"``, ``"jax values"``, ``"jax refuses"``, ``"refused"`` (JAX does not).
      detail: the error, or what differs.
      result: which result it is, if it is one.
    """

    kind: str
    detail: str
    result: int | None = None

    @property
    def signature(self) -> str:
        """What failures with one cause have in common, as far as one can tell."""
        if self.kind in ("compile", "eager", "jax refuses", "refused"):
            text = re.sub(r"0x[0-9a-f]+|/\S+|\d+|'[^']*'|\"[^\"]*\"", "_", self.detail)
            return f"{self.kind}: {text[:90]}"
        return self.kind


@dataclass
class Counts:
    """What was checked.

    Attributes:
      programs: how many, as they were generated.
      checks: results that were compared, with eager calls and with JAX.
      undecided: those of them that hang on a rounding in all elements.
      statements: of all programs.
    """

    programs: int = 0
    checks: int = 0
    undecided: int = 0
    statements: int = 0

    def __iadd__(self, other: Counts) -> Counts:
        self.programs += other.programs
        self.checks += other.checks
        self.undecided += other.undecided
        self.statements += other.statements
        return self


def message(error: BaseException) -> str:
    """The first telling line of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line] or lines or [""]
    return f"{type(error).__name__}: {telling[0][:300]}"


def reference(program: Program) -> Outcome:
    """What eager calls give, nested jitted functions included."""
    with GNOMON.package.disable_jit():
        return run(GNOMON, program, jitted=False)


def known_difference(program: Program, failure: Failure) -> str:
    """Why a failure is none: JAX's own rule or error; empty where nothing is known."""
    source = program.source()
    for known in KNOWN:
        if (
            failure.kind == known.kind
            and re.search(known.source, source)
            and re.search(known.detail, failure.detail)
        ):
            return known.reason
    return ""


def check(
    program: Program, *, jax: bool, kinds: str = "", counts: Counts | None = None
) -> Failure | None:
    """Run a program in all ways, and compare.

    Args:
      program: it.
      jax: whether JAX is asked, too.
      kinds: the kind of failure that is looked for; ways that cannot show it are left out.
      counts: gets what was compared.
    """
    expected = reference(program)
    if expected.error is not None:
        return Failure("eager", message(expected.error))
    judge = Judge(program, expected)
    if not kinds.startswith("jax"):
        failure = _compare(program, GNOMON, judge, OWN_FACTOR, counts)
        if failure is not None:
            return failure
    if not jax or kinds in ("compile", "types", "values"):
        return None
    failure = _compare(program, JAX, judge, JAX_FACTOR, counts)
    if failure is None:
        return None
    if failure.kind == "compile":
        return Failure("jax refuses", failure.detail)
    return replace(failure, kind=f"jax {failure.kind}")


def _compare(
    program: Program, library: Library, judge: Judge, factor: float, counts: Counts | None
) -> Failure | None:
    return judged(run(library, program, jitted=True), judge, factor, counts)


def judged(
    actual: Outcome, judge: Judge, factor: float, counts: Counts | None = None
) -> Failure | None:
    """What is wrong with an outcome."""
    if actual.error is not None:
        return Failure("compile", message(actual.error))
    verdict = judge.compare(actual, factor)
    if verdict.failure is not None:
        kind, _, detail = verdict.failure.partition(": ")
        return Failure(kind, detail, verdict.result)
    if counts is not None:
        counts.checks += verdict.compared
        counts.undecided += verdict.undecided
    return None


def refused_by_gnomon_alone(program: Program) -> bool:
    """Whether JAX runs a program."""
    return run(JAX, program, jitted=True).error is None


def with_results(program: Program, results: tuple[str, ...]) -> Program:
    """A program that returns other results, without what is then dead."""
    return cleaned(replace(program, block=replace(program.block, results=results)))
