"""The incomplete gamma functions and their derivatives with respect to the parameter.

P is the regularized lower function, Q = 1 - P the upper one, and p = x**a exp(-x) / (gamma(a) x)
the density of the gamma distribution. There are three regions:

- x < a + 1: a power series of P;
- a > 10 000 and x within a tenth of it: Temme's uniform expansion, because the other methods need
  thousands of terms;
- otherwise: a continued fraction of Q.

Each method computes quantities without the factor p, which may underflow: P / (x p) or Q / (x p),
and (dP/da) / -p. The last is the derivative of a sample with respect to a.

NIST Digital Library of Mathematical Functions, sections 8.7, 8.9, 8.12; M. Figurnov, S. Mohamed,
A. Mnih, Implicit Reparameterization Gradients (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, binary, nary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.expansion import in_f64
from gnomon.dialects.elementwise.special import STIRLING, horner
from gnomon.dialects.emit import add_tangents, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING, type_of

Value = Any

_EPSILON = 2.0**-53
_TERMS = 2000
_TINY = 1e-290
_LARGE = 1e4
_CLOSE = 0.1


def _number(o: Any, x: Value, value: float) -> Value:
    return o.full_like(x, value)


# ---------------------------------------------------------------------------------------- factors


def log1p_rest(o: Any, m: Value) -> Value:
    """The function m - log1p(m) for m >= -1, without cancellation near zero."""
    two = _number(o, m, 2)
    s = o.div(m, o.add(m, two))
    square = o.mul(s, s)
    series = horner(o, square, [2 / (2 * k + 3) for k in range(12)])
    near = o.sub(o.mul(m, s), o.mul(o.mul(s, square), series))
    is_near = o.lt(o.abs(m), _number(o, m, 0.4))
    return o.select(is_near, near, o.sub(m, o.log1p(m)))


def stirling_rest(o: Any, a: Value) -> Value:
    """The difference of lgamma(a) and (a - 1/2) log(a) - a + log(2 pi) / 2, for a >= 10."""
    inverse = o.div(_number(o, a, 1), a)
    return o.mul(inverse, horner(o, o.mul(inverse, inverse), STIRLING))


def _log_weight(o: Any, a: Value, x: Value) -> Value:
    """log(x**a exp(-x) / gamma(a)); for large a without lgamma, which would cancel."""
    direct = o.sub(o.sub(o.mul(a, o.log(x)), x), o.lgamma(a))
    ten = _number(o, a, 10)
    large = o.max(a, ten)
    apart = o.div(o.sub(x, large), large)
    root = o.mul(_number(o, a, 0.5), o.log(o.mul(large, _number(o, a, 0.5 / math.pi))))
    exponent = o.add(o.mul(large, log1p_rest(o, apart)), stirling_rest(o, large))
    return o.select(o.lt(a, ten), direct, o.sub(root, exponent))


# ----------------------------------------------------------------------------------- power series


def _series(o: Any, a: Value, x: Value) -> Value:
    """P / (x p), by the power series."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, n: Value, term: Value, total: Value) -> list[Value]:
        n = o.add(n, _number(o, n, 1))
        term = o.mul(term, o.div(x, o.add(a, n)))
        return [n, term, o.add(total, term)]

    def pending(n: Value, term: Value, total: Value) -> Value:
        grows = o.gt(term, o.mul(_number(o, n, _EPSILON), total))
        return o.and_(grows, o.lt(n, _number(o, n, _TERMS)))

    _, _, total = o.loop(pending, step, [a, x], [zero, one, one])
    return o.div(total, a)


def _series_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by the power series and the derivative of each term."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, term, total, slope, slopes = carries
        n = o.add(n, _number(o, n, 1))
        divisor = o.add(a, n)
        ratio = o.div(x, divisor)
        slope = o.mul(o.sub(slope, o.div(term, divisor)), ratio)
        term = o.mul(term, ratio)
        return [n, term, o.add(total, term), slope, o.add(slopes, slope)]

    def pending(n: Value, term: Value, total: Value, slope: Value, slopes: Value) -> Value:
        epsilon = _number(o, n, _EPSILON)
        grows = o.or_(
            o.gt(term, o.mul(epsilon, total)),
            o.gt(o.abs(slope), o.mul(epsilon, o.abs(slopes))),
        )
        return o.and_(grows, o.lt(n, _number(o, n, _TERMS)))

    carries = [zero, one, one, zero, zero]
    _, _, total, _, slopes = o.loop(pending, step, [a, x], carries)
    factor = o.sub(o.log(x), o.digamma(o.add(a, one)))
    return o.neg(o.mul(o.div(x, a), o.add(o.mul(factor, total), slopes)))


# ------------------------------------------------------------------------------ continued fraction


def _fraction(o: Any, a: Value, x: Value) -> Value:
    """Q / (x p), by Lentz's method for the continued fraction."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, c, d, h, _ = carries
        one = _number(o, n, 1)
        n = o.add(n, one)
        above = o.mul(n, o.sub(a, n))
        below = o.add(o.sub(x, a), o.add(o.add(n, n), one))
        d = o.div(one, o.add(o.mul(above, d), below))
        c = o.add(below, o.div(above, c))
        change = o.mul(d, c)
        return [n, c, d, o.mul(h, change), o.sub(change, one)]

    def pending(n: Value, c: Value, d: Value, h: Value, change: Value) -> Value:
        moves = o.gt(o.abs(change), _number(o, n, 2 * _EPSILON))
        return o.and_(moves, o.lt(n, _number(o, n, _TERMS)))

    d = o.div(one, o.add(o.sub(x, a), one))
    start = o.div(one, _number(o, a, _TINY))
    return o.loop(pending, step, [a, x], [zero, start, d, d, one])[3]


def _fraction_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by Lentz's method and the derivatives of its terms."""
    one, zero = o.div(a, a), o.sub(a, a)

    def step(a: Value, x: Value, *carries: Value) -> list[Value]:
        n, c, d, h, dc, dd, dh, _, _ = carries
        one = _number(o, n, 1)
        n = o.add(n, one)
        above = o.mul(n, o.sub(a, n))
        below = o.add(o.sub(x, a), o.add(o.add(n, n), one))
        # d above / da = n, d below / da = -1.
        slope = o.sub(o.add(o.mul(n, d), o.mul(above, dd)), one)
        d = o.div(one, o.add(o.mul(above, d), below))
        dd = o.neg(o.mul(slope, o.mul(d, d)))
        quotient = o.div(above, c)
        dc = o.sub(o.div(o.sub(n, o.mul(quotient, dc)), c), one)
        c = o.add(below, quotient)
        change = o.mul(d, c)
        change_slope = o.add(o.mul(dd, c), o.mul(d, dc))
        dh = o.add(o.mul(dh, change), o.mul(h, change_slope))
        moved = o.mul(h, change_slope)
        return [n, c, d, o.mul(h, change), dc, dd, dh, o.sub(change, one), moved]

    def pending(n: Value, *carries: Value) -> Value:
        _, _, _, _, _, dh, change, moved = carries
        epsilon = _number(o, n, 2 * _EPSILON)
        moves = o.or_(o.gt(o.abs(change), epsilon), o.gt(o.abs(moved), o.mul(epsilon, o.abs(dh))))
        return o.and_(moves, o.lt(n, _number(o, n, _TERMS)))

    d = o.div(one, o.add(o.sub(x, a), one))
    dd = o.mul(d, d)
    start = o.div(one, _number(o, a, _TINY))
    carries = [zero, start, d, d, zero, dd, dd, one, one]
    _, _, _, h, _, _, dh, _, _ = o.loop(pending, step, [a, x], carries)
    return o.mul(x, o.add(o.mul(o.sub(o.log(x), o.digamma(a)), h), dh))


# ------------------------------------------------------------------------------- uniform expansion

# The coefficients c0, c1, c2, c3 of the expansion (DLMF 8.12.7) as power series of eta.
_TEMME = (
    (
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
    ),
    (
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
    ),
    (
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
    ),
    (
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
    ),
)


def _at_eta(o: Any, a: Value, x: Value) -> tuple[Value, Value, Value, Value]:
    """The numbers x / a - 1, eta, the sum of the expansion, and its factor."""
    m = o.div(o.sub(x, a), a)
    rest = log1p_rest(o, m)
    eta = o.sqrt(o.add(rest, rest))
    eta = o.select(o.lt(m, _number(o, a, 0)), o.neg(eta), eta)
    total = horner(o, eta, _TEMME[-1])
    for coefficients in reversed(_TEMME[:-1]):
        total = o.add(o.div(total, a), horner(o, eta, coefficients))
    width = o.sqrt(o.mul(_number(o, a, 2 * math.pi), a))
    return m, eta, total, o.div(o.exp(o.neg(o.mul(a, rest))), width)


def _expansion(o: Any, a: Value, x: Value, sign: int) -> Value:
    """P (for sign -1) or Q (for sign 1) by Temme's expansion."""
    _, eta, total, factor = _at_eta(o, a, x)
    half, side = _number(o, a, 0.5), _number(o, a, sign)
    z = o.mul(o.mul(side, eta), o.sqrt(o.mul(half, a)))
    return o.add(o.mul(half, o.erfc(z)), o.mul(side, o.mul(factor, total)))


def _expansion_moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by Temme's expansion."""
    m, eta, total, _ = _at_eta(o, a, x)
    # The derivative of the sum with respect to a, through eta and through the powers of a.
    by_eta, slope = _ratio(o, m, eta), _number(o, a, 0)
    for k in reversed(range(len(_TEMME))):
        derivative = horner(o, eta, [n * c for n, c in enumerate(_TEMME[k])][1:])
        power = o.mul(_number(o, a, k), horner(o, eta, _TEMME[k]))
        slope = o.sub(o.sub(o.div(slope, a), o.mul(derivative, by_eta)), power)
    slope = o.div(slope, a)
    logarithm = o.log1p(m)
    change = o.sub(logarithm, o.div(_number(o, a, 0.5), a))
    moved = o.add(o.add(_ratio(o, logarithm, eta), slope), o.mul(total, change))
    factor = o.mul(o.add(m, _number(o, a, 1)), o.exp(stirling_rest(o, a)))
    return o.mul(factor, moved)


def _ratio(o: Any, x: Value, eta: Value) -> Value:
    """The quotient x / eta, which tends to one at zero."""
    is_zero = o.eq(eta, _number(o, eta, 0))
    one = _number(o, eta, 1)
    return o.select(is_zero, one, o.div(x, o.select(is_zero, one, eta)))


# -------------------------------------------------------------------------------------- the choice


Method = Callable[[Value, Value], Value]


def _chosen(
    o: Any, a: Value, x: Value, series: Method, fraction: Method, expansion: Method
) -> Value:
    """Choose the method for the region of each pair of positive finite numbers.

    Each method gets harmless numbers instead of those outside its region.
    """
    one = o.div(a, a)
    below = o.lt(x, o.add(a, one))
    apart = o.abs(o.sub(x, a))
    is_expanded = o.and_(
        o.gt(a, _number(o, a, _LARGE)), o.lt(apart, o.mul(a, _number(o, a, _CLOSE)))
    )
    in_series = o.and_(below, o.not_(is_expanded))
    in_fraction = o.not_(o.or_(below, is_expanded))
    ten, large = (o.mul(one, _number(o, a, value)) for value in (10, 2 * _LARGE))
    value = o.select(
        in_series,
        series(o.select(in_series, a, one), o.select(in_series, x, one)),
        fraction(o.select(in_fraction, a, one), o.select(in_fraction, x, ten)),
    )
    expanded = expansion(o.select(is_expanded, a, large), o.select(is_expanded, x, large))
    return o.select(is_expanded, expanded, value)


def _weight(o: Any, a: Value, x: Value) -> Value:
    return o.exp(_log_weight(o, a, x))


def _rest(o: Any, value: Value) -> Value:
    """One minus a probability, which may exceed one by rounding."""
    return o.max(o.sub(_number(o, value, 1), value), _number(o, value, 0))


def _p(o: Any, a: Value, x: Value) -> Value:
    return _chosen(
        o,
        a,
        x,
        lambda a, x: o.mul(_weight(o, a, x), _series(o, a, x)),
        lambda a, x: _rest(o, o.mul(_weight(o, a, x), _fraction(o, a, x))),
        lambda a, x: _expansion(o, a, x, -1),
    )


def _q(o: Any, a: Value, x: Value) -> Value:
    return _chosen(
        o,
        a,
        x,
        lambda a, x: _rest(o, o.mul(_weight(o, a, x), _series(o, a, x))),
        lambda a, x: o.mul(_weight(o, a, x), _fraction(o, a, x)),
        lambda a, x: _expansion(o, a, x, 1),
    )


def _moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by the method for the region."""
    return _chosen(
        o,
        a,
        x,
        lambda a, x: _series_moved(o, a, x),
        lambda a, x: _fraction_moved(o, a, x),
        lambda a, x: _expansion_moved(o, a, x),
    )


def _at_ends(o: Any, a: Value, x: Value, at_zero: float, at_infinity: float, inner: Any) -> Value:
    """Extend a function of positive finite numbers to the ends; nan where it is undefined."""
    zero, inf, nan = (_number(o, a, v) for v in (0, np.inf, np.nan))
    regular = o.and_(o.and_(o.gt(a, zero), o.lt(a, inf)), o.and_(o.gt(x, zero), o.lt(x, inf)))
    one = _number(o, a, 1)
    value = inner(o.select(regular, a, one), o.select(regular, x, one))
    # a = 0 puts all mass at zero, a = infinity at infinity; nan if x is at the same end.
    is_start = o.or_(o.eq(x, zero), o.eq(a, inf))
    is_end = o.or_(o.eq(x, inf), o.eq(a, zero))
    edge = o.select(is_end, _number(o, a, at_infinity), nan)
    edge = o.select(is_start, _number(o, a, at_zero), edge)
    lost = o.or_(o.or_(o.lt(a, zero), o.lt(x, zero)), o.and_(is_start, is_end))
    lost = o.or_(lost, o.or_(o.ne(a, a), o.ne(x, x)))
    return o.select(lost, nan, o.select(regular, value, edge))


def _igamma(o: Any, a: Value, x: Value) -> Value:
    return _at_ends(o, a, x, 0, 1, lambda a, x: _p(o, a, x))


def _igammac(o: Any, a: Value, x: Value) -> Value:
    return _at_ends(o, a, x, 1, 0, lambda a, x: _q(o, a, x))


def _igamma_grad_a(o: Any, a: Value, x: Value) -> Value:
    def slope(a: Value, x: Value) -> Value:
        return o.neg(o.mul(_moved(o, a, x), o.div(_weight(o, a, x), x)))

    # The domain begins at a = 0, where there is no derivative.
    begins = o.eq(a, _number(o, a, 0))
    return o.select(begins, _number(o, a, np.nan), _at_ends(o, a, x, 0, 0, slope))


def _random_gamma_grad(o: Any, a: Value, x: Value) -> Value:
    return _at_ends(o, a, x, 0, np.inf, lambda a, x: _moved(o, a, x))


# ------------------------------------------------------------------------------------- derivatives


def density(a: ir.Value, x: ir.Value) -> ir.Value:
    """The density of the gamma distribution at x: dP/dx."""
    one = full_like(x, 1)
    logarithm = ops.mul(ops.sub(a, one), ops.log(x))
    return ops.exp(ops.sub(ops.sub(logarithm, x), ops.lgamma(a)))


def _score(a: ir.Value, x: ir.Value) -> ir.Value:
    """The derivative of the log-density with respect to a."""
    return ops.sub(ops.log(x), ops.digamma(a))


def jvp_known_partials(
    name: str, op: str, partials: tuple[Callable[..., ir.Value] | None, ...]
) -> Any:
    """`jvp_partials`, except that a tangent of an operand whose partial is ``None`` is an error.

    Args:
      name: the operands whose partial is ``None``, for the message.
      op: the name of the op.
      partials: for each operand, a function of ``(*operands, out)``, or ``None``.
    """

    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        total: ir.Value | None = None
        for position, (tangent, partial) in enumerate(zip(tangents, partials, strict=True)):
            if tangent is None:
                continue
            if partial is None:
                raise NotImplementedError(
                    f"gnomon.{op} has no closed-form derivative with respect to operand "
                    f"{position}, {name}; apply stop_gradient to it"
                )
            slope = partial(*inst.operands, outs[0])
            total = add_tangents(total, ops.mul(tangent, slope))
        return [total]

    return rule


igamma = binary(
    "igamma",
    doc="the regularized lower incomplete gamma function P(x, y) of parameter x at y",
    dtypes=FLOATING,
    jvp=(lambda a, x, out: ops.igamma_grad_a(a, x), lambda a, x, out: density(a, x)),
    **in_f64("igamma", _igamma),
)
igammac = binary(
    "igammac",
    doc="the regularized upper incomplete gamma function, 1 - igamma(x, y)",
    dtypes=FLOATING,
    jvp=(
        lambda a, x, out: ops.neg(ops.igamma_grad_a(a, x)),
        lambda a, x, out: ops.neg(density(a, x)),
    ),
    **in_f64("igammac", _igammac),
)
igamma_grad_a = binary(
    "igamma_grad_a",
    doc="the derivative of igamma with respect to its first operand",
    dtypes=FLOATING,
    rule=jvp_known_partials(
        "the parameter",
        "igamma_grad_a",
        (None, lambda a, x, out: ops.mul(density(a, x), _score(a, x))),
    ),
    **in_f64("igamma_grad_a", _igamma_grad_a),
)
random_gamma_grad = binary(
    "random_gamma_grad",
    doc="the derivative with respect to x of a sample y of the gamma distribution of parameter x",
    dtypes=FLOATING,
    rule=jvp_known_partials(
        "the parameter",
        "random_gamma_grad",
        (
            None,
            lambda a, x, out: ops.neg(
                ops.add(
                    _score(a, x),
                    ops.mul(
                        out,
                        ops.sub(ops.div(ops.sub(a, full_like(a, 1)), x), full_like(a, 1)),
                    ),
                )
            ),
        ),
    ),
    **in_f64("random_gamma_grad", _random_gamma_grad),
)


# ----------------------------------------------------------------------------------------- samples


def _jvp_gamma_sample(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    a, sample = inst.operands
    by_a, by_sample = tangents
    if by_a is None:
        return [by_sample]
    if not inst.params["log_space"]:
        return [add_tangents(ops.mul(by_a, ops.random_gamma_grad(a, sample)), by_sample)]
    # A sample that underflows the dtype still has a finite logarithm.
    tiny = float(np.finfo(np.float32).tiny if type_of(a).dtype.itemsize < 8 else 1e-300)
    drawn = ops.max(ops.exp(sample), full_like(sample, tiny))
    slope = ops.div(ops.random_gamma_grad(a, drawn), drawn)
    return [add_tangents(ops.mul(by_a, slope), by_sample)]


gamma_sample = nary(
    "gamma_sample",
    2,
    doc="y, a sample (or its logarithm) of the gamma distribution of parameter x, differentiable "
    "with respect to x",
    dtypes=FLOATING,
    attributes={"log_space": BOOL},
    evaluate=lambda a, sample, log_space: sample,
    jvp=_jvp_gamma_sample,
    lower=lambda inst: [inst.operands[1]],
    example=(
        '%r = "gnomon.gamma_sample"(%x, %y) {log_space = false} : '
        "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
    ),
)
