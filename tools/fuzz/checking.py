"""Checks a program: jitted as eager, and as JAX."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.oracle import ask_jax
from gnomon.tools.fuzz.program import Program, Statement, cleaned, mapped_statements
from gnomon.tools.fuzz.running import GNOMON, JAX, Library, Outcome, message, run

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
      formula: another definition of the function that the pattern of the source names. The failure
        is known only if gnomon, given that definition, agrees with JAX, or with its own eager calls
        where they are what differs.
      elsewhere: the function that the pattern of the source names, kept away from the operands for
        which JAX differs. The failure is known only if gnomon and JAX agree once both call that.
      op_by_op: whether the failure is known only if JAX agrees with gnomon as soon as it does not
        compile the program as a whole: XLA's simplifications are to blame.
    """

    kind: str
    source: str
    detail: str
    reason: str
    formula: str = ""
    elsewhere: str = ""
    op_by_op: bool = False


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
        r"^NotImplementedError: (lax\.)?linalg\.\w+: unsupported dtype \w+; "
        "(factor in|convert to) float32",
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
        r"\bspecial\.expi(?=\()",
        "nan instead of -inf",
        "JAX's expi is nan at 0, where SciPy's and ours are -inf",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x == 0, 1, x)))",
    ),
    Known(
        "jax values",
        r"\bclz\(",
        r"-\d+ instead of 0",
        "XLA folds clz of negative constants to a negative number",
    ),
    Known(
        "values",
        r"\b(sfft|gnp\.fft)\.(i?dctn?|i?r?fft[2n]?|i?hfft)(?=\()",
        r"^\(?-?(inf|nan)\S* instead of \(?-?(inf|nan)",
        "which results of a transform of infinite numbers are nan hangs on the order of its sums",
        formula=r"(lambda x, **k: gnp.where(gnp.isfinite(x).all(), \g<0>(x, **k), gnp.nan))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(arc|a)cosh(?=\()",
        "instead of nan",
        "JAX's derivatives of acosh below 1, where it has no value, are those of another branch",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.real(x) < 1, 2, x)))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\btanh\()(?=.*\bgn\.(jvp|linearize)\()",
        "nan instead of -?inf",
        "JAX adds an infinite tangent to its product with tanh, of the other sign",
    ),
    Known(
        "jax values",
        r"\b\w+\.(igammac?|gammaincc?)(?=\()",
        r"\bnan\b",
        "JAX's igamma is nan at a = 0 and a = inf, where SciPy's and ours are 0 or 1",
        elsewhere=r"(lambda a, x: \g<0>(gnp.where((a == 0) | (a == gnp.inf), 1, a), x))",
    ),
    Known(
        "jax values",
        r"\b[\w.]+\.pinv(?=\()",
        r"-?0\.0 instead of nan",
        "JAX's pinv of infinite numbers is 0, that of nan is nan; ours is nan for both",
        elsewhere=r"(lambda x, **k: \g<0>(gnp.where(gnp.isinf(x), 1, x), **k))",
    ),
    Known(
        "jax values",
        r"\bmultiply\(\w+, k\d+\)",
        r"nan instead of -?0\.0",
        "XLA makes one product of two with constants, which may overflow: 0 * inf for (0 * k) * k",
        op_by_op=True,
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bi0\()(?=.*\bgn\.(grad|jvp|hessian|jac\w+|linearize|vjp)\()",
        r"instead of -?0\.0",
        "JAX's derivative of i0 at 0 is 1; ours is 0, as it is in mathematics",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\]\.(min|max)\()(?=.*\bgn\.(jvp|linearize)\()",
        "nan instead of -?inf",
        "JAX multiplies an infinite tangent of an updated extremum by 0 where it is not chosen",
    ),
    Known(
        "jax values",
        r"\bspence\(",
        "0.0 instead of -inf",
        "JAX's derivative of spence at 0 is 0; ours is the limit",
    ),
    Known(
        "jax values",
        r"\bspecial\.spence(?=\()",
        "nan instead of -inf",
        "JAX's spence of inf is nan; ours is the limit",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x == gnp.inf, 2, x)))",
    ),
    Known(
        "jax values",
        r"\bgn\.hessian\(",
        r"-?0\.0 instead of nan",
        "XLA drops products of an infinite derivative with 0; JAX's eager value is nan, as ours",
        op_by_op=True,
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\blogaddexp\()(?=.*\bgn\.hessian\()",
        r"^-?\d\.\d+e-\d+ instead of -?0\.0",
        "the second derivative of logaddexp(x, x) is 0; JAX's has a rounding error",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bcum(min|max)\()(?=.*\bgn\.(grad|hessian|jacrev|vjp)\()",
        r"nan instead of -?0\.0",
        "JAX multiplies a cotangent that is nan by 0 where an element is not chosen",
    ),
    Known(
        "jax values",
        r"\b\w+\.convolve(?=\()",
        "instead of nan",
        "products of infinite numbers with the padding are nan; of two elements XLA has no such",
        elsewhere=r"(lambda a, v, **k: \g<0>(gnp.where(gnp.isfinite(a), a, 1), "
        r"gnp.where(gnp.isfinite(v), v, 1), **k))",
    ),
    Known(
        "jax types",
        r"\bgnp\.angle\(",
        r"^\(\(\), 'float(32|64)', False\) instead of \(\(\), 'b?float16', False\)",
        "JAX's angle of one real number of 16 bits is wider; that of several is not",
    ),
    Known(
        "jax values",
        r"\bgnp\.sinc(?=\()",
        "",
        "JAX's sinc rounds pi times its argument, and keeps no digit near integers; ours does",
        formula="(lambda x: gnp.where(x == 0, 1, (lambda w: gnp.sin(w) / w)"
        "(gnp.where(x == 0, 1, gnp.pi * x))))",
    ),
)


@dataclass(frozen=True)
class Failure:
    """A defect that a program shows.

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
        """A text that failures with one cause usually share."""
        if self.kind in ("compile", "eager", "jax refuses", "refused"):
            text = re.sub(r"0x[0-9a-f]+|/\S+|\d+|'[^']*'|\"[^\"]*\"", "_", self.detail)
            return f"{self.kind}: {text[:90]}"
        return self.kind


@dataclass
class Counts:
    """The amount of what was checked.

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


def reference(program: Program) -> Outcome:
    """The outcome of eager calls; nested jitted functions run eagerly too."""
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
            and (not known.formula or _explains(known, program))
            and (not known.elsewhere or _agree_elsewhere(known, program))
            and (not known.op_by_op or _agree_op_by_op(program))
        ):
            return known.reason
    return ""


def _explains(known: Known, program: Program) -> bool:
    """Whether the difference is gone once a function is computed by another formula."""
    other = _with_function(program, known.source, known.formula)
    if known.kind == "values":
        return _agree(other, run(GNOMON, other, jitted=True), OWN_FACTOR)
    return _agree(other, ask_jax([program])[0], JAX_FACTOR)


def _agree_elsewhere(known: Known, program: Program) -> bool:
    """Whether gnomon agrees with JAX once a function is not called where JAX differs."""
    other = _with_function(program, known.source, known.elsewhere)
    return _agree(other, ask_jax([other])[0], JAX_FACTOR)


def _with_function(program: Program, pattern: str, function: str) -> Program:
    """The program with another function in the place of the one that the pattern matches."""

    def defined(statement: Statement) -> Statement:
        return replace(statement, template=re.sub(pattern, function, statement.template))

    return replace(program, block=mapped_statements(program.block, defined))


def _agree_op_by_op(program: Program) -> bool:
    """Whether gnomon agrees with JAX where XLA compiles each op alone."""
    return _agree(program, ask_jax([program], jitted=False)[0], JAX_FACTOR)


def _agree(program: Program, actual: Outcome, factor: float) -> bool:
    expected = reference(program)
    if expected.error is not None or actual.error is not None:
        return False
    return Judge(program, expected).compare(actual, factor, weak=False).failure is None


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
    if library is JAX:
        (outcome,) = ask_jax([program])
    else:
        outcome = run(library, program, jitted=True)
    return judged(outcome, judge, factor, counts)


def judged(
    actual: Outcome, judge: Judge, factor: float, counts: Counts | None = None
) -> Failure | None:
    """The failure of an outcome, or None if the outcome is right."""
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
    (outcome,) = ask_jax([program])
    return outcome.error is None


def with_results(program: Program, results: tuple[str, ...]) -> Program:
    """A program that returns other results, without what is then dead."""
    return cleaned(replace(program, block=replace(program.block, results=results)))
