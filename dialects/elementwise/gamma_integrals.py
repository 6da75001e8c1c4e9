"""The incomplete gamma functions and their derivatives with respect to the parameter.

P is the regularized lower function, Q = 1 - P the upper one: see `gamma_probabilities`. The
derivative (dP/da) / -p of a sample with respect to a, where p = x**a exp(-x) / (gamma(a) x) is the
density of the gamma distribution, is computed without p, which may underflow. There are three
regions:

- a > 10 000 and x within a tenth of it: Temme's uniform expansion, because the other methods need
  thousands of terms;
- otherwise, x < a + 1: a power series of P;
- otherwise: a continued fraction of Q.

NIST Digital Library of Mathematical Functions, sections 8.7, 8.9, 8.12; M. Figurnov, S. Mohamed,
A. Mnih, Implicit Reparameterization Gradients (2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, binary, nary
from gnomon.dialects.contract import Instance
from gnomon.dialects.elementwise.double_words import joined
from gnomon.dialects.elementwise.expansion import in_f64
from gnomon.dialects.elementwise.gamma_methods import (
    continued_fraction_moved,
    number,
    power_series_moved,
    uniform_expansion_moved,
)
from gnomon.dialects.elementwise.gamma_probabilities import lower_probability, upper_probability
from gnomon.dialects.elementwise.integral_weights import gamma_weight
from gnomon.dialects.emit import add_tangents, full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost
from gnomon.dialects.types import FLOATING, type_of

Value = Any

_LARGE = 1e4
_CLOSE = 0.1


def _moved(o: Any, a: Value, x: Value) -> Value:
    """(dP/da) / -p, by the method for the region of each pair of positive finite numbers.

    Each method gets harmless numbers instead of those outside its region.
    """
    one = o.div(a, a)
    below = o.lt(x, o.add(a, one))
    apart = o.abs(o.sub(x, a))
    is_expanded = o.and_(o.gt(a, number(o, a, _LARGE)), o.lt(apart, o.mul(a, number(o, a, _CLOSE))))
    in_series = o.and_(below, o.not_(is_expanded))
    in_fraction = o.not_(o.or_(below, is_expanded))
    ten, large = (o.mul(one, number(o, a, value)) for value in (10, 2 * _LARGE))
    value = o.select(
        in_series,
        power_series_moved(o, o.select(in_series, a, one), o.select(in_series, x, one)),
        continued_fraction_moved(o, o.select(in_fraction, a, one), o.select(in_fraction, x, ten)),
    )
    expanded = uniform_expansion_moved(
        o, o.select(is_expanded, a, large), o.select(is_expanded, x, large)
    )
    return o.select(is_expanded, expanded, value)


def _at_ends(o: Any, a: Value, x: Value, at_zero: float, at_infinity: float, inner: Any) -> Value:
    """Extend a function of positive finite numbers to the ends; nan where it is undefined."""
    zero, inf, nan = (number(o, a, v) for v in (0, np.inf, np.nan))
    regular = o.and_(o.and_(o.gt(a, zero), o.lt(a, inf)), o.and_(o.gt(x, zero), o.lt(x, inf)))
    one = number(o, a, 1)
    value = inner(o.select(regular, a, one), o.select(regular, x, one))
    # a = 0 puts all mass at zero, a = infinity at infinity; nan if x is at the same end.
    is_start = o.or_(o.eq(x, zero), o.eq(a, inf))
    is_end = o.or_(o.eq(x, inf), o.eq(a, zero))
    edge = o.select(is_end, number(o, a, at_infinity), nan)
    edge = o.select(is_start, number(o, a, at_zero), edge)
    lost = o.or_(o.or_(o.lt(a, zero), o.lt(x, zero)), o.and_(is_start, is_end))
    lost = o.or_(lost, o.or_(o.ne(a, a), o.ne(x, x)))
    return o.select(lost, nan, o.select(regular, value, edge))


def _igamma(o: Any, loops: Any, a: Value, x: Value) -> Value:
    return _at_ends(o, a, x, 0, 1, lambda a, x: lower_probability(o, loops, a, x))


def _igammac(o: Any, loops: Any, a: Value, x: Value) -> Value:
    return _at_ends(o, a, x, 1, 0, lambda a, x: upper_probability(o, loops, a, x))


def _igamma_grad_a(o: Any, loops: Any, a: Value, x: Value) -> Value:
    def slope(a: Value, x: Value) -> Value:
        return o.neg(o.mul(_moved(o, a, x), o.div(joined(o, gamma_weight(o, a, x)), x)))

    # The domain begins at a = 0, where there is no derivative.
    begins = o.eq(a, number(o, a, 0))
    return o.select(begins, number(o, a, np.nan), _at_ends(o, a, x, 0, 0, slope))


def _random_gamma_grad(o: Any, loops: Any, a: Value, x: Value) -> Value:
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
    cost=Cost.FUNCTION,
    dtypes=FLOATING,
    jvp=(lambda a, x, out: ops.igamma_grad_a(a, x), lambda a, x, out: density(a, x)),
    **in_f64("igamma", _igamma),
)
igammac = binary(
    "igammac",
    doc="the regularized upper incomplete gamma function, 1 - igamma(x, y)",
    cost=Cost.FUNCTION,
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
    cost=Cost.FUNCTION,
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
    cost=Cost.FUNCTION,
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
    cost=Cost.FUNCTION,
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
