"""The public API as rules, from which the generator draws."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.tools.fuzz.rules import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    SIGNED,
    Rule,
    calls,
    templates,
)

ELEMENTWISE = [
    *calls(
        "gnp",
        "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp expm1 exp2 "
        "log log1p log2 log10 sqrt reciprocal",
        "{x}",
        INEXACT,
    ),
    *calls("gnp", "cbrt deg2rad rad2deg sinc i0 fabs rint trunc floor ceil", "{x}", FLOAT),
    *calls("gnp", "negative square conj real imag absolute angle positive sign", "{x}", NUMBER),
    *calls("gnp", "isnan isinf isfinite isposinf isneginf signbit iscomplex isreal", "{x}", REAL),
    *calls("gnp", "sin exp log sqrt tanh arctan square abs", "{x}", INTEGER + BOOL),
    *calls("gnp", "add subtract multiply maximum minimum", "{x}, {y}", NUMBER),
    *calls("gnp", "divide true_divide", "{x}, {y}", NUMBER),
    *calls("gnp", "power float_power", "{x}, {y}", INEXACT),
    *calls(
        "gnp",
        "floor_divide remainder fmod fmax fmin heaviside arctan2 hypot nextafter copysign "
        "logaddexp logaddexp2",
        "{x}, {y}",
        FLOAT,
    ),
    *calls(
        "gnp",
        "floor_divide remainder fmod gcd lcm bitwise_and bitwise_or bitwise_xor maximum minimum",
        "{x}, {y}",
        INTEGER,
    ),
    *calls("gnp", "bitwise_not bitwise_count invert", "{x}", INTEGER),
    *calls("gnp", "left_shift right_shift", "{x}, {r}", INTEGER),
    *calls("gnp", "logical_and logical_or logical_xor", "{x}, {y}", ANY),
    *calls("gnp", "equal not_equal less less_equal greater greater_equal", "{x}, {y}", ANY),
    *calls("gnp", "isclose", "{x}, {y}", INEXACT),
    *templates(
        NUMBER,
        """
        {x} + {y}
        {x} - {y}
        {x} * {y}
        {x} / {y}
        {x} * 2 + 1
        {x} - 0.5
        -{x}
        {x} ** 2
        {x} ** 3
        abs({x})
        gnp.where({m}, {x}, {y})
        gnp.where({x} > 0, {x}, {y})
        gnp.where({m}, {x}, 0)
        gnp.nan_to_num({x})
        """,
    ),
    *templates(
        REAL,
        """
        gnp.clip({x}, -1, 1)
        gnp.clip({x}, {y}, {z})
        gnp.round({x})
        {x} // {y}
        {x} % {y}
        {x} < {y}
        """,
    ),
    Rule("gnp.modf({x})", FLOAT, results=2),
    Rule("gnp.divmod({x}, {y})", REAL, results=2),
    Rule("gnp.frexp({x})", FLOAT, results=2),
    Rule("gnp.ldexp({x}, {k})", FLOAT),
    Rule("~{x}", BOOL + INTEGER),
    Rule("{x} & {y}", BOOL + INTEGER),
    Rule("{x}.astype({dtype})", ANY),
    Rule("gnp.where({x}, {y}, {z})", BOOL),
    Rule("gnp.select([{m}, {x} > 0], [{x}, {y}], 1)", REAL),
]

LAX = [
    *calls(
        "lax",
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp expm1 log log1p sqrt "
        "rsqrt logistic square",
        "{x}",
        INEXACT,
    ),
    *calls(
        "lax",
        "exp2 cbrt erf erfc erf_inv floor ceil is_finite",
        "{x}",
        FLOAT,
    ),
    *calls("lax", "lgamma digamma bessel_i0e bessel_i1e", "{x}", FLOAT, halves=False),
    *calls("lax", "neg sign abs", "{x}", FLOAT + SIGNED),
    *calls("lax", "add sub mul", "{x}, {y}", NUMBER, strict=True),
    *calls("lax", "div rem max min", "{x}, {y}", REAL, strict=True),
    *calls("lax", "pow", "{x}, {y}", FLOAT, strict=True, flavour="positive"),
    *calls("lax", "atan2 nextafter", "{x}, {y}", FLOAT, strict=True),
    *calls("lax", "eq ne", "{x}, {y}", ANY, strict=True),
    *calls("lax", "lt le gt ge", "{x}, {y}", REAL + BOOL, strict=True),
    *calls("lax", "bitwise_and bitwise_or bitwise_xor", "{x}, {y}", INTEGER + BOOL, strict=True),
    *calls("lax", "population_count clz bitwise_not", "{x}", INTEGER),
    *calls(
        "lax",
        "shift_left shift_right_logical shift_right_arithmetic",
        "{x}, {y}",
        INTEGER,
        strict=True,
        flavour="natural",
    ),
    *templates(
        REAL,
        """
        lax.clamp({y}, {x}, {z})
        lax.select({m}, {x}, {y})
        lax.select_n({m}, {x}, {y})
        lax.full_like({x}, 3)
        """,
        strict=True,
    ),
    Rule("lax.round({x}, lax.RoundingMethod.TO_NEAREST_EVEN)", FLOAT),
    Rule("lax.reduce_precision({x}, 5, 7)", FLOAT),
    Rule("lax.integer_pow({x}, {k})", NUMBER),
    Rule("lax.complex({x}, {y})", FLOAT, strict=True),
    Rule("lax.convert_element_type({x}, {dtype})", ANY),
    Rule("lax.igamma({x}, {y})", FLOAT, strict=True, flavour="positive", halves=False),
    Rule("lax.igammac({x}, {y})", FLOAT, strict=True, flavour="positive", halves=False),
    Rule("lax.betainc({x}, {y}, {z})", FLOAT, strict=True, flavour="positive", halves=False),
    Rule("lax.polygamma({x}, {y})", FLOAT, strict=True, flavour="positive", halves=False),
    Rule("lax.zeta({x}, {y})", FLOAT, strict=True, flavour="positive", halves=False),
]

NETWORKS = [
    *calls(
        "nn",
        "celu elu gelu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish relu relu6 "
        "selu sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus tanh",
        "{x}",
        FLOAT,
        flavour="normal",
    ),
    *templates(
        FLOAT,
        """
        nn.softmax({x}, axis={axis})
        nn.log_softmax({x}, axis={axis})
        nn.logsumexp({x}, axis={axis}, keepdims={keepdims})
        nn.logmeanexp({x}, axis={axis})
        nn.standardize({x}, axis={axis})
        nn.softmax({x}, axis={axis}, where={m})
        """,
        least=1,
    ),
    Rule("nn.one_hot({x}, {size})", INTEGER, most=3),
]

SPECIAL = [
    *calls(
        "special",
        "erf erfc erfinv expit ndtr ndtri log_ndtr entr spence i0 i0e i1 i1e expi dawsn",
        "{x}",
        FLOAT,
        halves=False,
    ),
    *calls(
        "special",
        "gammaln gamma digamma logit exp1",
        "{x}",
        FLOAT,
        flavour="positive",
        halves=False,
    ),
    *calls(
        "special",
        "xlogy xlog1py kl_div rel_entr beta betaln gammainc gammaincc",
        "{x}, {y}",
        FLOAT,
        flavour="positive",
        halves=False,
    ),
    Rule("special.logsumexp({x}, axis={axis})", FLOAT, 1),
    Rule("special.betainc({x}, {y}, 0.3)", FLOAT, flavour="positive", halves=False),
    Rule("special.multigammaln({x} + 3, 2)", FLOAT, flavour="positive", halves=False),
    *calls(
        "stats",
        "norm.pdf norm.logpdf norm.cdf norm.logcdf norm.sf cauchy.pdf laplace.logpdf logistic.cdf",
        "{x}",
        FLOAT,
        halves=False,
    ),
]
REDUCTIONS = [
    *calls("gnp", "sum mean", "{x}, axis={axis}, keepdims={keepdims}", ANY, least=1),
    *calls("gnp", "sum mean", "{x}", ANY),
    # Long products overflow, and then nan depends on the order of the factors.
    *calls("gnp", "prod cumprod", "{x}, axis={axis}", NUMBER, least=1, most=2, shape="short"),
    *calls("gnp", "prod cumprod", "{x}", NUMBER, most=1, shape="short"),
    *calls("gnp", "max min ptp", "{x}, axis={axis}, keepdims={keepdims}", REAL, least=1),
    *calls("gnp", "max min", "{x}, axis={axes}", REAL, least=1),
    *calls("gnp", "sum mean", "{x}, axis={axes}", NUMBER, least=1),
    *calls("gnp", "var std", "{x}, axis={axis}, ddof=1", INEXACT, least=1),
    *calls("gnp", "all any count_nonzero", "{x}, axis={axis}", ANY, least=1),
    *calls("gnp", "argmax argmin", "{x}, axis={axis}", REAL, least=1),
    *calls("gnp", "argmax argmin", "{x}", REAL),
    *calls(
        "gnp",
        "nansum nanmean nanmax nanmin nanstd nanvar",
        "{x}, axis={axis}",
        FLOAT,
        least=1,
        flavour="special",
    ),
    *calls("gnp", "nanargmax nanargmin", "{x}, axis={axis}", FLOAT, least=1),
    *calls("gnp", "median", "{x}, axis={axis}", FLOAT, least=1),
    *calls("gnp", "cumsum", "{x}, axis={axis}", NUMBER, least=1),
    *calls("gnp", "cumsum", "{x}", NUMBER),
    *calls("gnp", "nancumsum cumulative_sum", "{x}.ravel()", REAL),
    *calls(
        "lax",
        "cumsum cummax cummin cumlogsumexp",
        "{x}, axis={axis}, reverse=True",
        FLOAT,
        least=1,
    ),
    *calls("lax", "cumsum cummax cummin", "{x}, axis={axis}", INTEGER, least=1),
    *calls("lax", "reduce_sum reduce_max reduce_min", "{x}, axes=({axis},)", REAL, least=1),
    *calls(
        "lax", "reduce_and reduce_or reduce_xor", "{x}, axes=({axis},)", INTEGER + BOOL, least=1
    ),
    *templates(
        REAL,
        """
        gnp.sum({x}, axis={axis}, where={m})
        gnp.mean({x}, axis={axis}, where={m})
        gnp.max({x}, axis={axis}, where={m}, initial=-1)
        gnp.sum({x}, dtype='float32')
        gnp.sum({x}, axis={axis}, initial=2)
        gnp.sum(-{x})
        gnp.sum({x} * {y}, axis={axis})
        gnp.sum({x} == {y})
        gnp.average({x}, axis={axis})
        gnp.diff({x}, axis={axis})
        gnp.any({x} > {y})
        {x}.sum() + {x}.max()
        lax.reduce({x}, lax.full_like({x}, 0, shape=()), lax.add, ({axis},))
        """,
        least=1,
    ),
    Rule("gnp.quantile({x}, 0.3, axis={axis})", FLOAT, 1),
    Rule("gnp.percentile({x}, 70, axis={axis})", FLOAT, 1),
    Rule("gnp.linalg.norm({x}, axis={axis})", INEXACT, 1),
    Rule("gnp.linalg.vector_norm({x})", INEXACT),
    Rule("gnp.trace({x})", NUMBER + BOOL, 2),
    Rule("gnp.trapezoid({x}, axis={axis})", FLOAT, 1),
    Rule("gnp.cov({x})", FLOAT, 2, 2),
    Rule("gnp.bincount(abs({x}), length=7)", SIGNED, 1, 1),
    Rule("gnp.histogram({x}, bins=5)", FLOAT, 1, results=2),
    Rule("ops.segment_sum({x}, {i}, 5)", NUMBER, 1),
    Rule("lax.reduce_window({x}, -numpy.inf, lax.max, (3,), (1,), 'SAME')", FLOAT, 1, 1),
    Rule("lax.reduce_window({x}, 0, lax.add, (2,), (2,), 'VALID')", NUMBER, 1, 1),
    Rule("lax.argmax({x}, {axis}, 'int32')", REAL, 1),
]

STRUCTURE = [
    *templates(
        ANY,
        """
        gnp.reshape({x}, {shape})
        gnp.broadcast_to({x}, {wider})
        gnp.ravel({x})
        gnp.transpose({x})
        gnp.concatenate([{x}, {y}], axis=None)
        gnp.stack([{x}, {x}])
        gnp.tile({x}, 2)
        gnp.expand_dims({x}, 0)
        gnp.squeeze({x})
        gnp.atleast_2d({x})
        gnp.full_like({x}, 1)
        gnp.zeros_like({x})
        gnp.ones_like({x})
        gnp.copy({x})
        gnp.repeat({x}, 3)
        gnp.kron({x}, {s})
        """,
    ),
    *templates(
        ANY,
        """
        gnp.flip({x}, axis={axis})
        gnp.roll({x}, {k}, axis={axis})
        gnp.roll({x}, {n}, axis={axis})
        gnp.repeat({x}, 2, axis={axis})
        gnp.concatenate([{x}, {x}], axis={axis})
        gnp.concatenate([{x}, {y}, {x}], axis={axis})
        gnp.moveaxis({x}, {axis}, 0)
        gnp.transpose({x}, {perm})
        gnp.pad({x}, 1)
        gnp.pad({x}, {pads}, mode='edge')
        gnp.pad({x}, {pads}, mode='wrap')
        gnp.pad({x}, {pads}, mode='reflect')
        gnp.pad({x}, {pads}, constant_values=1)
        gnp.append({x}, {x}, axis={axis})
        gnp.delete({x}, 0, axis={axis})
        gnp.insert({x}, 0, 1, axis={axis})
        gnp.take({x}, {i}, axis=0)
        gnp.take({x}, {i}, axis=0, mode='clip')
        gnp.take({x}, {i}, axis=0, mode='wrap')
        {x}[{i}]
        {x}[{n}]
        {x}[{at}]
        {x}[{i}, ..., ::-1]
        {x}.at[{i}].get(mode='fill', fill_value=1)
        {x}.at[{at}].get()
        lax.rev({x}, ({axis},))
        lax.slice_in_dim({x}, 0, None, 2, {axis})
        lax.dynamic_index_in_dim({x}, {n}, {axis})
        lax.dynamic_slice_in_dim({x}, {n}, 1, {axis})
        lax.index_in_dim({x}, 0, {axis})
        lax.broadcast({x}, (2,))
        lax.concatenate([{x}, {x}], {axis})
        lax.collapse({x}, 0)
        lax.transpose({x}, {perm})
        gnp.array_split({x}, 2, axis={axis})[0]
        gnp.meshgrid({x}.ravel()[:5], {x}.ravel()[:3])[0]
        gnp.unstack({x})[-1] if {x}.shape[0] else {x}
        """,
        least=1,
    ),
    *templates(
        ANY,
        """
        {x}[:, {n}]
        {x}[{n}, {n}]
        {x}[{i}, 0:1]
        {x}[0:1, {n}]
        {x}.at[{n}, 0:1].get(mode='fill')
        gnp.swapaxes({x}, 0, -1)
        gnp.tril({x})
        gnp.triu({x}, {k})
        gnp.diagonal({x})
        gnp.rot90({x})
        gnp.fliplr({x})
        gnp.vstack([{x}, {x}])
        gnp.hstack([{x}, {y}])
        {x}.T
        """,
        least=2,
    ),
    Rule("gnp.diag({x})", ANY, 1, 2),
    Rule("gnp.outer({x}, {y})", NUMBER),
    Rule("gnp.sort({x}, axis={axis})", REAL + BOOL, 1),
    Rule("gnp.argsort({x}, axis={axis})", REAL, 1),
    Rule("gnp.lexsort(({y}, {x}))", INTEGER, 1, 1),
    Rule("lax.sort({x}, dimension={axis})", REAL, 1),
    Rule("lax.sort_key_val({x}, {y})", REAL, 1, results=2, strict=True),
    Rule("lax.top_k({x}, 1)", REAL, 1, results=2),
    Rule("gnp.searchsorted(gnp.sort({x}), {s})", REAL, 1, 1),
    Rule("gnp.searchsorted(gnp.sort({x}), {y}, side='right')", REAL, 1, 1),
    Rule("gnp.take_along_axis({x}, gnp.argsort({x}, axis={axis}), axis={axis})", REAL, 1),
    Rule("gnp.unique({x}, size=4, fill_value=1)", INTEGER),
    Rule("gnp.nonzero({x}, size=3, fill_value=1)[0]", INTEGER + BOOL, 1),
    Rule("gnp.flatnonzero({x}, size=3)", INTEGER + BOOL),
    Rule("gnp.interp({x}, gnp.arange(4.), gnp.arange(4.) ** 2)", FLOAT),
    Rule("lax.bitcast_convert_type({x}, 'int32')", FLOAT),
    Rule("gnp.packbits({x})", BOOL),
    Rule("lax.pad({x}, lax.full_like({x}, 1, shape=()), [(1, -1, 1)])", ANY, 1, 1),
    Rule("gnp.vander({x}, 3)", NUMBER, 1, 1),
    Rule("gnp.polyval({v}, {x})", FLOAT, 1, 2, shape="short"),
    Rule("gnp.convolve({x}, {y})", NUMBER, 1, 1, shape="short"),
    Rule("gnp.arange({size}) + {s}", REAL),
    Rule("gnp.linspace({s}, {s} + 1, {size})", FLOAT),
    Rule("gnp.eye({size}) * {s}", NUMBER),
    Rule("gnp.ones({size}) * {s}", NUMBER),
    Rule("gnp.sum(gnp.arange({size}) - {s})", NUMBER),
]

UPDATES = [
    *templates(
        ANY,
        """
        {x}.at[{at}].set({u})
        {x}.at[{at}].set({x}[{at}])
        {x}.at[{n}].set({s})
        {x}.at[{i}].set({s})
        {x}.at[{i}].set({s}, mode='drop', unique_indices=False)
        lax.dynamic_update_slice_in_dim({x}, {x}[:1], {n}, 0)
        lax.dynamic_update_index_in_dim({x}, {x}[0], {n}, 0)
        lax.dynamic_update_slice({x}, {x}[:1], ({n},) + (0,) * ({x}.ndim - 1))
        """,
        least=1,
    ),
    *templates(
        NUMBER,
        """
        {x}.at[{at}].add({u})
        {x}.at[{at}].multiply({u})
        {x}.at[{i}].add({s})
        {x}.at[{i}].add({x}[{i}])
        {x}.at[{n}].multiply(2)
        {x}.at[{i}].subtract({s})
        """,
        least=1,
    ),
    *templates(
        REAL,
        """
        {x}.at[{at}].max({u})
        {x}.at[{at}].min({u})
        {x}.at[{i}].max({s})
        {x}.at[{i}].multiply({s})
        {x}.at[{n}].apply(lambda t: t + 1)
        """,
        least=1,
    ),
    Rule("{x}.at[{at}].divide({u})", FLOAT, 1),
    Rule("{x}.at[{at}].power(2)", FLOAT, 1),
    Rule("{x}.at[{at}].apply(gnp.sin)", FLOAT, 1),
    Rule("{x}.at[:, {n}].set({s})", ANY, 2),
    Rule("{x}.at[{n}, {n}].add({s})", NUMBER, 2),
    Rule(
        "gnp.where(gnp.arange({x}.shape[0]) == {n}, 1, {x}.reshape({x}.shape[0], -1)[:, 0])",
        NUMBER,
        1,
    ),
    Rule("gnp.put_along_axis({x}, {i}[:1] * 0, {s}, axis=0, inplace=False)", NUMBER, 1, 1),
]

PRODUCTS = [
    *templates(
        NUMBER,
        """
        gnp.dot({x}, {v})
        {x} @ {w}
        {x} @ {v}
        gnp.vdot({x}, {x})
        gnp.inner({x}, {v})
        gnp.tensordot({x}, {v}, 1)
        gnp.einsum('...i,i->...', {x}, {v})
        gnp.einsum('...i,ij->...j', {x}, {w})
        gnp.vecdot({x}, {y})
        """,
        least=1,
    ),
    *templates(
        NUMBER,
        """
        {x} @ {x}.swapaxes(-1, -2)
        gnp.einsum('...ij->...ji', {x})
        gnp.einsum('...ij,...ij->...', {x}, {x})
        gnp.matmul({x}, {w}, preferred_element_type=None)
        """,
        least=2,
    ),
    Rule("lax.dot_general({x}, {w}, ((({x}.ndim - 1,), (0,)), ((), ())))", NUMBER, 1, strict=True),
    Rule("lax.conv({x}[None, None], gnp.ones((2, 1, 3), {x}.dtype), (1,), 'SAME')", FLOAT, 1, 1),
    Rule("gnp.fft.fft({x}, axis={axis})", INEXACT, 1),
    Rule("gnp.fft.rfft({x}, axis={axis})", FLOAT, 1),
    Rule("gnp.fft.irfft({x}, axis={axis})", COMPLEX, 1),
    Rule("gnp.fft.fft2({x})", INEXACT, 2),
    Rule("gnp.fft.fftshift({x})", NUMBER, 1),
    Rule("sfft.dct({x})", FLOAT, 1),
]

MATRICES = [
    *templates(
        INEXACT,
        """
        gnp.linalg.inv({x})
        gnp.linalg.det({x})
        gnp.linalg.solve({x}, {w})
        gnp.linalg.matrix_power({x}, 2)
        slinalg.solve_triangular({x}, {w}, lower=True)
        """,
        least=2,
        shape="square",
        flavour="dominant",
    ),
    Rule("gnp.linalg.slogdet({x})", INEXACT, 2, shape="square", flavour="dominant", results=2),
    Rule("slinalg.lu({x})", FLOAT, 2, 2, shape="square", flavour="dominant", results=3),
    Rule("slinalg.expm({x} * 0.1)", FLOAT, 2, 3, shape="square", flavour="normal"),
    Rule("gnp.linalg.cholesky({x})", FLOAT, 2, shape="square", flavour="definite"),
    Rule("gnp.linalg.eigvalsh({x})", FLOAT, 2, shape="square", flavour="definite"),
    Rule("gnp.linalg.qr({x})", FLOAT, 2, results=2),
    Rule("gnp.linalg.svd({x}, compute_uv=False)", INEXACT, 2),
    Rule("gnp.linalg.pinv({x})", FLOAT, 2),
]

RANDOM = [
    *templates(
        ANY,
        """
        random.uniform({key}, {shape})
        random.normal({key}, {shape})
        random.bits({key}, {shape})
        random.randint({key}, {shape}, -3, 9)
        random.bernoulli({key}, 0.3, {shape})
        random.choice({key}, {x}.ravel(), (3,))
        random.rademacher({key}, {shape})
        random.exponential({key}, {shape})
        random.gumbel({key}, {shape})
        random.laplace({key}, {shape})
        random.truncated_normal({key}, -1., 1., {shape})
        random.key_data(random.split({key}, 3))
        random.key_data(random.fold_in({key}, {k}))
        """,
    ),
    # A scalar `x` would be a length, which must be concrete.
    Rule("random.permutation({key}, {x})", ANY, 1),
    Rule("random.categorical({key}, {x})", FLOAT, 1),
    Rule("random.gamma({key}, {x})", FLOAT, flavour="positive"),
    Rule("random.poisson({key}, {x})", FLOAT, flavour="positive"),
]

# Reductions of a million elements and more, whose errors grow with their number. JAX adds 16-bit
# floats in 16 bits.
LONG = [
    *templates(
        REAL,
        """
        gnp.sum(gnp.resize({x}, 1_000_003))
        gnp.mean(gnp.resize({x}, 1_200_000))
        gnp.sum(gnp.resize({x}, (1_000_003, 2)), axis=0)
        gnp.mean(gnp.resize({x}, (2, 1_000_003)), axis={k} % 2)
        gnp.sum(gnp.resize({x}, (1100, 3, 400)), axis=(0, 2))
        gnp.var(gnp.resize({x}, (1_000_003, 2)), axis=0)
        gnp.cumsum(gnp.resize({x}, 1_000_003))[::99_991]
        gnp.linalg.norm(gnp.resize({x}, 1_100_000))
        gnp.sum(gnp.resize({x}, 1_000_003) > 0)
        """,
        least=1,
        halves=False,
    ),
    Rule("gnp.vdot(gnp.resize({x}, 1_000_003), gnp.resize({y}, 1_000_003))", NUMBER, 1),
    Rule("nn.logsumexp(gnp.resize({x}, (3, 400_003)), axis={k} % 2)", FLOAT, 1, halves=False),
    Rule("nn.softmax(gnp.resize({x}, (2, 600_000)))[:, ::99_991]", FLOAT, 1, halves=False),
]

# The families of rules by name, each with the weight of being drawn.
FAMILIES: Mapping[str, tuple[int, list[Rule]]] = {
    "elementwise": (6, ELEMENTWISE),
    "lax": (3, LAX),
    "nn": (1, NETWORKS),
    "special": (1, SPECIAL),
    "reduction": (6, REDUCTIONS),
    "structure": (6, STRUCTURE),
    "update": (5, UPDATES),
    "product": (2, PRODUCTS),
    "matrix": (1, MATRICES),
    "random": (1, RANDOM),
    "long": (1, LONG),
}
