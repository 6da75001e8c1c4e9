"""Checks a program: its jitted results are compared with eager results, and with JAX's."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gnomon.tools.fuzz.judging import Judge
from gnomon.tools.fuzz.limits import neighbours, with_limits
from gnomon.tools.fuzz.oracle import ask_jax
from gnomon.tools.fuzz.program import Program, Statement, cleaned, mapped_statements
from gnomon.tools.fuzz.running import GNOMON, JAX, Library, Outcome, message, run

# The tolerance of an element, as a multiple of how far the program's rounding errors move it. Eager
# and jitted calls differ in the order of sums and in the approximations of functions; JAX differs
# more, hence the larger factor.
OWN_FACTOR, JAX_FACTOR = 8.0, 64.0


@dataclass(frozen=True)
class Known:
    """A false positive: JAX is to blame, or the failure is a documented limit of gnomon.

    Attributes:
      kind: the kind of the failure.
      source: a regular expression for the program's source, as narrow as the cause.
      detail: a regular expression for the failure's detail.
      reason: why this is not a finding.
      formula: an alternative definition of the function that `source` matches. The failure is known
        only if gnomon, given that definition, agrees with JAX (or with its own eager calls, if the
        kind is ``"values"``).
      elsewhere: a wrapper of the function that `source` matches, which replaces the operands for
        which JAX differs. The failure is known only if gnomon and JAX agree when both call it.
      op_by_op: whether the failure is known only if JAX agrees with gnomon when each op is compiled
        alone, so that XLA's simplifications are to blame.
      limit: whether the failure is known only if JAX's results nearby tend to gnomon's value.
    """

    kind: str
    source: str
    detail: str
    reason: str
    formula: str = ""
    elsewhere: str = ""
    op_by_op: bool = False
    limit: bool = False


KNOWN = (
    Known(
        "compile",
        "",
        r"^UnsupportedOnTarget: .* on target 'x86-64-v",
        "an op has no lowering for a target without a math library, and the error says so",
    ),
    Known(
        "refused",
        "",
        r"^NotImplementedError: (lax\.)?linalg\.\w+: unsupported dtype b?float16; ",
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
        "which results of a transform of infinities are nan depends on the order of its sums",
        formula=r"(lambda x, **k: gnp.where(gnp.isfinite(x).all(), \g<0>(x, **k), gnp.nan))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(arc|a)cosh(?=\()",
        "instead of nan",
        "JAX's derivatives of acosh below 1, where it is undefined, are those of another branch",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.real(x) < 1, 2, x)))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\btanh\()(?=.*\bgn\.(jvp|linearize)\()",
        "nan instead of -?inf",
        "JAX adds an infinite tangent to its product with tanh, which has the opposite sign",
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
        r"\b\w+\.(igammac|gammaincc)(?=\()",
        "",
        "JAX's igammac is 1 - igamma in f32 where x < max(a, 1): small values lose their digits",
        formula="(lambda a, x: gnp.where((x <= 1) | (x <= a), 1 - special.gammainc(a, x), "
        "special.gammaincc(a, x)))",
    ),
    Known(
        "jax values",
        r"\b[\w.]+\.pinv(?=\()",
        r"-?0\.0 instead of nan",
        "JAX's pinv of infinities is 0, and of nan is nan; ours is nan for both",
        elsewhere=r"(lambda x, **k: \g<0>(gnp.where(gnp.isinf(x), 1, x), **k))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bi0\()(?=.*\bgn\.(grad|jvp|hessian|jac\w+|linearize|vjp)\()",
        r"instead of -?0\.0",
        "JAX's derivative of i0 at 0 is 1; ours is 0, the exact value",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\]\.(min|max)\()(?=.*\bgn\.(jvp|linearize)\()",
        r"nan instead of -?(inf|0\.0)",
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
        "0.0 instead of nan",
        "JAX's derivatives of spence below 0, where it is undefined, are 0",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x < 0, 2, x)))",
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
        r"\b(gnp\.(float_)?power|lax\.pow)(?=\()",
        r"\bnan\S* instead of ",
        "JAX's complex powers of 0 and of infinities, and its derivative of 0 ** 0, are nan; ours "
        "are 0 where the power tends to 0, and the derivative of a constant",
        elsewhere=r"(lambda x, y: \g<0>(gnp.where((x == 0) | gnp.isinf(x), 1, x), y))",
    ),
    Known(
        "jax values",
        r"\b\w+\.expm1(?=\()",
        r"\b(inf|nan)",
        "XLA's formula of complex expm1 overflows early, and is nan where the C standard's is not",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.isfinite(x) & (gnp.real(x) < 85), x, 1)))",
    ),
    Known(
        "jax values",
        r"\b\w+\.ndtri(?=\()",
        "^0.0 instead of inf",
        "JAX's derivative of ndtri at 0 and 1 is 0; ours is the limit",
        elsewhere=r"(lambda x: \g<0>(gnp.where((x == 0) | (x == 1), 0.5, x)))",
    ),
    Known(
        "jax values",
        r"\bspecial\.beta(ln)?(?=\()",
        "^nan instead of ",
        "JAX's derivatives of beta and betaln are nan at negative arguments, where ours are finite",
        elsewhere=r"(lambda a, b: \g<0>(gnp.where(a < 0, 1, a), gnp.where(b < 0, 1, b)))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\]\.(min|max)\()(?=.*\bgn\.(grad|hessian|jacrev|vjp)\()",
        r"^-?\d\.\d+e-\d+ instead of -?0\.0",
        "the derivative of an extremum by an element that an update replaces is 0; JAX's has a "
        "rounding error",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\blogaddexp\()(?=.*\bgn\.hessian\()",
        r"^-?(0\.00\d+|\d\.\d+e-\d+) instead of -?0\.0",
        "the second derivative of logaddexp(x, x) is 0; JAX's has a rounding error",
    ),
    Known(
        "jax values",
        r"\b\w+\.logaddexp2?(?=\()",
        "",
        "JAX's derivative of logaddexp(x, inf) by x is exp(x), and that of logaddexp(-inf, -inf) "
        "is nan; ours are 0 and 1/2",
        elsewhere=r"(lambda x, y: \g<0>(gnp.where(gnp.isinf(x), 1, x), "
        r"gnp.where(gnp.isinf(y), 1, y)))",
    ),
    Known(
        "refused",
        r"\b(gamma|beta|dirichlet|loggamma|t|chisquare|f|generalized_normal|ball)\(",
        "^NotImplementedError: gnomon.random_gamma_grad has no closed-form derivative",
        "second derivatives of samples of a gamma distribution are refused, and the error says so",
    ),
    Known(
        "jax values",
        r"\bnn\.relu(?=\()",
        r"^-?0\.0 instead of ",
        "JAX's derivative of relu at nan is 0; ours is 1",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.isnan(x), 1, x)))",
    ),
    Known(
        "jax values",
        r"\b\w+\.exp2?(?=\()",
        r"^\(nan[+-]nanj\) instead of \(?-?0",
        "JAX's complex exponential is nan where the real part is -inf and the imaginary infinite; "
        "ours is 0, the C standard's",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.isfinite(x), x, 1)))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(rel_entr|kl_div)(?=\()",
        r"^nan instead of ",
        "JAX's rel_entr of inf is nan; SciPy's and ours are inf",
        elsewhere=r"(lambda p, q: \g<0>(gnp.where(p == gnp.inf, 1, p), q))",
    ),
    Known(
        "jax values",
        r"\]\.power\(.*\n(?s:.*)\bgn\.(hessian|jac\w+)\(",
        r"nan instead of -?0\.0",
        "JAX's second derivative of the power of some elements is nan where another element is 0",
    ),
    Known(
        "compile",
        r"\blax\.while_loop\(",
        "^ReverseModeWhileError: ",
        "eager loops are differentiated in reverse as they run; jitted ones are refused, "
        "and the error says so",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*(\bcum|\]\.)(min|max)\()(?=.*\bgn\.(grad|hessian|jacrev|vjp)\()",
        r"nan instead of -?0\.0",
        "JAX multiplies a cotangent that is nan by 0 where an element is not chosen",
    ),
    Known(
        "jax values",
        r"\b\w+\.convolve(?=\()",
        "instead of nan",
        "products of infinities with padding are nan; XLA omits them for operands of two elements",
        elsewhere=r"(lambda a, v, **k: \g<0>(gnp.where(gnp.isfinite(a), a, 1), "
        r"gnp.where(gnp.isfinite(v), v, 1), **k))",
    ),
    Known(
        "jax types",
        r"\bgnp\.angle\(",
        r"^\(\(\), 'float(32|64)', False\) instead of \(\(\), 'b?float(16|32)', False\)",
        "JAX's angle of one narrow real number is wider; that of several is not",
    ),
    Known(
        "jax values",
        r"\bgnp\.sinc(?=\()",
        "",
        "JAX's sinc rounds pi times its argument, and loses all digits near integers; not ours",
        formula="(lambda x: gnp.where(x == 0, 1, (lambda w: gnp.sin(w) / w)"
        "(gnp.where(x == 0, 1, gnp.pi * x))))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(solve_triangular|triangular_solve)(?=\()",
        r"nan instead of -?inf",
        "JAX's triangular solves add zeros times infinities, where LAPACK's do not",
        elsewhere=r"(lambda a, b, **k: \g<0>(a, gnp.where(gnp.isfinite(b), b, 1), **k))",
    ),
    Known(
        "values",
        r"\bgnp\.(float_)?power(?=\()",
        r"\b(inf|nan)",
        "complex powers of 0 and infinities are other infinities, nan or 0 in eager calls",
        formula="(lambda x, y: (lambda z: gnp.where(gnp.isfinite(z) & (z != 0), z, 1))("
        r"\g<0>(gnp.where(gnp.isfinite(x) & (x != 0), x, 1), y)))",
    ),
    Known(
        "values",
        r"\b[\w.]+\.(det|slogdet)(?=\()",
        r"\b(inf|nan)",
        "the determinant of infinities is infinite or nan, depending on the order of its products",
        formula=r"(lambda x: \g<0>(gnp.where(gnp.isfinite(x), x, 1)))",
    ),
    Known(
        "jax values",
        r"\bgnp\.angle(?=\()",
        r"^nan instead of -?0\.0",
        "XLA's angle of a 0 that it computes may be nan",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x == 0, 1, x)))",
    ),
    Known(
        "jax values",
        r"\b(\w+\.log_ndtr|stats\.norm\.logcdf)(?=\()",
        "",
        "JAX's log_ndtr loses digits between 2 and 5, as the logarithm of a number near 1, "
        "and in f64 below -20, where its series has few terms",
        elsewhere=r"(lambda x: \g<0>(gnp.where((x < -20) | ((x > 2) & (x <= 5)), -1, x)))",
    ),
    Known(
        "jax values",
        r"\b\w+\.betainc(?=\()",
        r"^(-?\d+\.\d{9})\d* instead of \1",
        "JAX's betainc of f64 has only ten digits where its continued fraction ends early",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\breduce_window\(.*lax\.max)(?=.*\bgn\.(grad|vjp|jac\w+|hessian)\()",
        r"^-?\d+\.0 instead of -?\d+\.0",
        "JAX's gradient of the maximum of a window with a nan is not that of the nan, and at -inf "
        "it may be given to the padding",
    ),
    Known(
        "jax values",
        r"\b\w+\.(reduce_max|reduce_min|a?max|a?min)(?=\()",
        r"^nan instead of -?0\.0",
        "JAX's derivative of the maximum of no elements is nan; ours is 0",
        elsewhere=r"(lambda x, *a, **k: \g<0>(x if x.size else "
        r"gnp.ones([max(n, 1) for n in x.shape], x.dtype), *a, **k))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(rel_entr|kl_div)(?=\()",
        r"^inf instead of nan",
        "JAX's rel_entr of nan is inf; SciPy's and ours are nan",
        elsewhere=r"(lambda p, q: \g<0>(gnp.where(p != p, 1, p), gnp.where(q != q, 1, q)))",
    ),
    Known(
        "jax types",
        r"\b(special\.\w+|gnp\.(hypot|sinc|deg2rad|rad2deg|degrees|radians|heaviside|logaddexp2|"
        r"spacing|is(pos|neg)?inf|iscomplex|isreal|array_equ\w+|logical_\w+))\(",
        r"^\((\(.*\), '\w+', )False\) instead of \(\1True\)$",
        "results of these functions are weakly typed if all arguments are; see docs/differences.md",
    ),
    Known(
        "jax values",
        r"\bslinalg\.expm(?=\()",
        r" instead of ",
        "JAX's expm of a float32 matrix loses digits if its norm is far above 1; SciPy's does not",
        elsewhere=r"(lambda x, *a, **k: \g<0>(x / (1 + gnp.sum(gnp.abs(x))), *a, **k))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bdivide\()(?=.*\bgn\.(jvp|linearize|grad|vjp|jac\w+|hessian)\()",
        # In float16, 1e4 / (1e4)^2 is 0, and 1 / 1e4 is this.
        r"^-?0\.0001000\d* instead of -?0\.0 ",
        "JAX squares the divisor in the derivative of a quotient, which overflows in float16",
    ),
    Known(
        "jax values",
        r"\bgnp\.(float_)?power(?=\()",
        r"^\(\S*(inf|nan)\S*j\) instead of \(\S*(inf|nan)\S*j\) ",
        "which part of an infinite complex power is nan or 0 differs, also between JAX's own calls",
    ),
    Known(
        "jax values",
        r"\b\w+\.(arc(sin|cos|tan)h?|a(sin|cos|tan)h?)(?=\()",
        r"^\(?\S+j\)? instead of \(?\S*nan\S*j\)? ",
        "JAX's inverse functions of infinite complex numbers ignore a nan in the other part; ours "
        "follow the C standard",
        elsewhere=r"(lambda x: \g<0>(gnp.where(gnp.isfinite(x), x, 1)))",
    ),
    Known(
        "jax values",
        r"\b\w+\.(digamma|lgamma|gammaln|gamma)(?=\()",
        r"^(nan|-inf) instead of -?inf ",
        "digamma at 0 is -inf, and inf at -0, as in SciPy; JAX's is nan, and since 0.12 -inf at "
        "both",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x == 0, 1, x)))",
    ),
    Known(
        "jax values",
        r"\bspecial\.betaln(?=\()",
        r"^-?\d+\.\d+ instead of -?\d+\.\d+ ",
        "JAX's betaln has only seven digits in f64 where an argument is 8 or more",
        elsewhere=r"(lambda a, b: \g<0>(gnp.minimum(a, 4), gnp.minimum(b, 4)))",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\brandom\.(gamma|beta|dirichlet|chisquare|f|t)\()(?=.*\bgn\.(jvp|grad|vjp|jac\w+|"
        r"hessian|linearize)\()",
        r"^(-?\d*\.\d\d)\d* instead of \1",
        "JAX's derivative of gamma variates has four digits for large parameters; ours has all",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\brandom\.(gamma|beta|dirichlet|chisquare|f|t)\()(?=.*\bgn\.(jvp|grad|vjp|jac\w+|"
        r"hessian|linearize)\()",
        r"^nan instead of inf ",
        "JAX's derivative of gamma variates is nan for the parameter 0; ours is inf, the limit",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bgnp\.nan(mean|std)\()(?=.*\bgn\.(jvp|jacfwd|linearize)\()",
        r"^0\.0 instead of nan",
        "JAX's derivatives of nanmean and nanstd of no elements are 0; ours are nan, like those of "
        "mean and std",
    ),
    Known(
        "jax values",
        r"(?s)(?=.*\bspecial\.i0\()(?=.*\bgn\.(jvp|grad|vjp|jac\w+|hessian|linearize)\()",
        r"^1\.5\d* instead of 0\.5",
        "JAX's second derivative of i0 at 0 is 1.5; it is 0.5",
    ),
    Known(
        "jax values",
        r"\blax\.bessel_i1e(?=\()",
        r"^-?0\.5 instead of nan",
        "JAX's derivative of bessel_i1e at nan is that at 0",
        elsewhere=r"(lambda x: \g<0>(gnp.where(x != x, 1, x)))",
    ),
    Known(
        "jax values",
        "",
        r"^(-?)inf instead of \1[1-3]\.\d+e\+(38|308) ",
        "the result is within a factor of 4 of the largest number, and JAX computes larger ones on "
        "the way",
    ),
    # Seen so far: products of 0 with infinities and nans that are dropped, products with identity
    # matrices and permutations that become selections, quotients by a literal complex 0, constants
    # of nested products that are multiplied and overflow, and operands of extrema that are computed
    # twice with different roundings.
    Known(
        "jax values",
        "",
        "",
        "XLA's simplifications change the value; JAX's op by op is gnomon's",
        op_by_op=True,
    ),
    # Seen so far: the second derivative of atanh at 1, that of ldexp at infinity, and those of
    # logaddexp between equal infinities.
    Known(
        "jax values",
        "",
        "",
        "JAX's value at a singular point is not the limit of its values nearby; ours is",
        limit=True,
    ),
)


@dataclass(frozen=True)
class Failure:
    """A defect that a program shows.

    Attributes:
      kind: ``"eager"`` (eager calls raise), ``"compile"`` (the jitted call raises), ``"types"`` or
        ``"values"`` (jitted and eager results differ), ``"jax types"`` or ``"jax values"`` (results
        differ from JAX's), ``"jax refuses"`` (only JAX raises), ``"refused"`` (only gnomon does).
      detail: the error, or the difference.
      result: the index of the result that differs, if results differ.
    """

    kind: str
    detail: str
    result: int | None = None

    @property
    def signature(self) -> str:
        """A string that failures with the same cause usually share."""
        if self.kind in ("compile", "eager", "jax refuses", "refused"):
            text = re.sub(r"0x[0-9a-f]+|/\S+|\d+|'[^']*'|\"[^\"]*\"", "_", self.detail)
            return f"{self.kind}: {text[:90]}"
        return self.kind


@dataclass
class Counts:
    """How much was checked.

    Attributes:
      programs: the number of generated programs.
      checks: the number of comparisons of a result, with eager calls and with JAX.
      undecided: the number of comparisons in which every element is too sensitive to rounding.
      statements: the number of statements of all programs.
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
    """The reason why a failure is a known false positive, or an empty string."""
    source = program.source()
    for known in KNOWN:
        if (
            failure.kind == known.kind
            and re.search(known.source, source)
            and re.search(known.detail, failure.detail)
            and (not known.formula or _explains(known, program))
            and (not known.elsewhere or _agree_elsewhere(known, program))
            and (not known.op_by_op or _agree_op_by_op(program))
            and (not known.limit or _is_limit(program))
        ):
            return known.reason
    return ""


def _explains(known: Known, program: Program) -> bool:
    """Whether the difference disappears when `known.formula` replaces the function."""
    other = _with_function(program, known.source, known.formula)
    if known.kind == "values":
        return _agree(other, run(GNOMON, other, jitted=True), OWN_FACTOR)
    return _agree(other, ask_jax([program])[0], JAX_FACTOR)


def _agree_elsewhere(known: Known, program: Program) -> bool:
    """Whether gnomon agrees with JAX when the operands for which JAX differs are replaced."""
    other = _with_function(program, known.source, known.elsewhere)
    return _agree(other, ask_jax([other])[0], JAX_FACTOR)


def _with_function(program: Program, pattern: str, function: str) -> Program:
    """The program with another function in place of the one that the pattern matches."""

    def defined(statement: Statement) -> Statement:
        return replace(statement, template=re.sub(pattern, function, statement.template))

    return replace(program, block=mapped_statements(program.block, defined))


def _agree_op_by_op(program: Program) -> bool:
    """Whether gnomon agrees with JAX when XLA compiles each op alone."""
    return _agree(program, ask_jax([program], jitted=False)[0], JAX_FACTOR)


def _is_limit(program: Program) -> bool:
    """Whether JAX's results nearby, which agree with gnomon's there, tend to gnomon's value."""
    near = list(neighbours(program))
    nearby = ask_jax(near)
    if not all(_agree(p, outcome, JAX_FACTOR) for p, outcome in zip(near, nearby, strict=True)):
        return False
    (theirs,) = ask_jax([program])
    expected = reference(program)
    if expected.error is not None or theirs.error is not None:
        return False
    return _agree(program, with_limits(expected, theirs, nearby), JAX_FACTOR)


def _agree(program: Program, actual: Outcome, factor: float) -> bool:
    expected = reference(program)
    if expected.error is not None or actual.error is not None:
        return False
    return Judge(program, expected).compare(actual, factor, weak=False).failure is None


def check(
    program: Program, *, jax: bool, kinds: str = "", counts: Counts | None = None
) -> Failure | None:
    """Run a program eagerly, jitted and with JAX, and compare the results.

    Args:
      program: the program.
      jax: whether to compare with JAX as well.
      kinds: the kind of failure to look for; runs that cannot show it are skipped.
      counts: updated with the number of comparisons.
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
    """The failure that an outcome shows, or None if the outcome is correct."""
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
    """Whether JAX runs a program that gnomon refused."""
    (outcome,) = ask_jax([program])
    return outcome.error is None


def with_results(program: Program, results: tuple[str, ...]) -> Program:
    """A program that returns the given results, without the code that is then dead."""
    return cleaned(replace(program, block=replace(program.block, results=results)))
