"""`gnomon.numpy`: NumPy's functions on immutable arrays, which can be traced.

Functions, arguments, promotion and kinds of error are those of ``jax.numpy``.
"""

import numpy as _numpy

from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import (
    can_cast,
    finfo,
    iinfo,
    isdtype,
    issubdtype,
    promote_types,
    result_type,
)
from gnomon.numpy import _array_api, fft, linalg
from gnomon.numpy._accumulations import cumprod, cumsum, cumulative_prod, cumulative_sum, diff
from gnomon.numpy._aliases import name_aliases
from gnomon.numpy._arithmetic import (
    deg2rad,
    degrees,
    heaviside,
    hypot,
    pow,
    power,
    rad2deg,
    radians,
    sinc,
)
from gnomon.numpy._attributes import ndim, shape, size
from gnomon.numpy._bessel import i0
from gnomon.numpy._calculus import corrcoef, cov, ediff1d, gradient, trapezoid, unwrap
from gnomon.numpy._construction import (
    array,
    asarray,
    astype,
    copy,
    from_dlpack,
    frombuffer,
    fromfunction,
    fromstring,
)
from gnomon.numpy._creation import (
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from gnomon.numpy._diagonals import diag, diagflat, eye, identity, tri, tril, triu
from gnomon.numpy._division import divmod, floor_divide, fmod, gcd, lcm, mod, remainder
from gnomon.numpy._einsum import einsum, einsum_path
from gnomon.numpy._files import (
    ComplexWarning,
    array_repr,
    array_str,
    fromfile,
    fromiter,
    iterable,
    load,
    save,
    savez,
)
from gnomon.numpy._functional import apply_along_axis, apply_over_axes, piecewise, vectorize
from gnomon.numpy._histograms import (
    bincount,
    histogram,
    histogram2d,
    histogram_bin_edges,
    histogramdd,
)
from gnomon.numpy._index_tricks import (
    block,
    c_,
    diag_indices,
    diag_indices_from,
    index_exp,
    ix_,
    mask_indices,
    mgrid,
    ogrid,
    r_,
    ravel_multi_index,
    s_,
    tril_indices,
    tril_indices_from,
    triu_indices,
    triu_indices_from,
    unravel_index,
)
from gnomon.numpy._insertion import delete, insert
from gnomon.numpy._interpolation import interp
from gnomon.numpy._joining import (
    append,
    array_split,
    column_stack,
    concat,
    concatenate,
    dsplit,
    dstack,
    hsplit,
    hstack,
    split,
    stack,
    unstack,
    vsplit,
    vstack,
)
from gnomon.numpy._linear_algebra import (
    cross,
    diagonal,
    dot,
    inner,
    kron,
    matmul,
    matvec,
    outer,
    tensordot,
    trace,
    vdot,
    vecdot,
    vecmat,
)
from gnomon.numpy._logarithms import log2, log10, logaddexp, logaddexp2
from gnomon.numpy._manipulation import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    permute_dims,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    transpose,
)
from gnomon.numpy._moments import average, mean, std, var
from gnomon.numpy._nan_reductions import (
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
)
from gnomon.numpy._operators import install
from gnomon.numpy._order_statistics import (
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from gnomon.numpy._padding import pad
from gnomon.numpy._parts import (
    angle,
    around,
    ceil,
    conj,
    conjugate,
    copysign,
    fabs,
    fix,
    floor,
    frexp,
    imag,
    ldexp,
    modf,
    real,
    rint,
    round,
    signbit,
    spacing,
    trunc,
)
from gnomon.numpy._placement import (
    choose,
    compress,
    extract,
    fill_diagonal,
    packbits,
    place,
    put,
    put_along_axis,
    resize,
    rollaxis,
    trim_zeros,
    unpackbits,
)
from gnomon.numpy._polynomials import (
    poly,
    polyadd,
    polyder,
    polydiv,
    polyfit,
    polyint,
    polymul,
    polysub,
    polyval,
    roots,
)
from gnomon.numpy._predicates import (
    allclose,
    array_equal,
    array_equiv,
    isclose,
    iscomplex,
    iscomplexobj,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    isrealobj,
    isscalar,
)
from gnomon.numpy._ranges import arange, geomspace, indices, linspace, logspace, meshgrid, vander
from gnomon.numpy._reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    min,
    minmax,
    prod,
    ptp,
    sum,
)
from gnomon.numpy._repetition import flip, fliplr, flipud, repeat, roll, rot90, tile
from gnomon.numpy._scalar_types import FLOAT8 as _FLOAT8
from gnomon.numpy._scalar_types import (
    bfloat16,
    bool_,
    cdouble,
    complex64,
    complex128,
    complex_,
    csingle,
    double,
    float16,
    float32,
    float64,
    float_,
    int2,
    int4,
    int8,
    int16,
    int32,
    int64,
    int_,
    single,
    uint,
    uint2,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from gnomon.numpy._selection import (
    argwhere,
    clip,
    flatnonzero,
    fmax,
    fmin,
    nan_to_num,
    nonzero,
    select,
    where,
)
from gnomon.numpy._sets import (
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from gnomon.numpy._signals import (
    bartlett,
    blackman,
    convolve,
    correlate,
    hamming,
    hanning,
    kaiser,
)
from gnomon.numpy._sorting import (
    argpartition,
    argsort,
    digitize,
    lexsort,
    partition,
    searchsorted,
    sort,
    sort_complex,
    top_k,
)
from gnomon.numpy._taking import take, take_along_axis
from gnomon.numpy._ufunc_class import frompyfunc, ufunc
from gnomon.numpy._ufuncs import (
    abs,
    absolute,
    acos,
    acosh,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    cbrt,
    cos,
    cosh,
    divide,
    equal,
    exp,
    exp2,
    expm1,
    float_power,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    reciprocal,
    right_shift,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    true_divide,
)

ndarray = Array
dtype = _numpy.dtype

# The abstract scalar types for `issubdtype`.
generic, number, inexact = _numpy.generic, _numpy.number, _numpy.inexact
floating, complexfloating = _numpy.floating, _numpy.complexfloating
integer, signedinteger = _numpy.integer, _numpy.signedinteger
unsignedinteger, character = _numpy.unsignedinteger, _numpy.character
flexible, object_ = _numpy.flexible, _numpy.object_

e: float = _numpy.e
euler_gamma: float = _numpy.euler_gamma
inf: float = _numpy.inf
nan: float = _numpy.nan
newaxis = None
pi: float = _numpy.pi

float8_e3m4 = _FLOAT8["float8_e3m4"]
float8_e4m3 = _FLOAT8["float8_e4m3"]
float8_e4m3b11fnuz = _FLOAT8["float8_e4m3b11fnuz"]
float8_e4m3fn = _FLOAT8["float8_e4m3fn"]
float8_e4m3fnuz = _FLOAT8["float8_e4m3fnuz"]
float8_e5m2 = _FLOAT8["float8_e5m2"]
float8_e5m2fnuz = _FLOAT8["float8_e5m2fnuz"]
float8_e8m0fnu = _FLOAT8["float8_e8m0fnu"]

# Arrays are printed by NumPy.
get_printoptions = _numpy.get_printoptions
printoptions = _numpy.printoptions
set_printoptions = _numpy.set_printoptions

bool = bool_

__array_api_version__ = _array_api.VERSION
__array_namespace_info__ = _array_api.ArrayNamespaceInfo


__all__ = [
    "ComplexWarning", "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin",
    "angle", "any", "append", "apply_along_axis", "apply_over_axes", "arange", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition",
    "argsort", "argwhere", "around", "array", "array_equal", "array_equiv", "array_repr",
    "array_split", "array_str", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett", "bfloat16", "bincount",
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bool", "bool_",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "c_", "can_cast", "cbrt", "cdouble",
    "ceil", "character", "choose", "clip", "column_stack", "complex64", "complex128", "complex_",
    "complexfloating", "compress", "concat", "concatenate", "conj", "conjugate", "convolve", "copy",
    "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "csingle",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete",
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff", "digitize",
    "divide", "divmod", "dot", "double", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum",
    "einsum_path", "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims",
    "expm1", "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero",
    "flexible", "flip", "fliplr", "flipud", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float16", "float32", "float64", "float_", "float_power", "floating", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "frexp", "from_dlpack", "frombuffer", "fromfile", "fromfunction",
    "fromiter", "frompyfunc", "fromstring", "full", "full_like", "gcd", "generic", "geomspace",
    "get_printoptions", "gradient", "greater", "greater_equal", "hamming", "hanning", "heaviside",
    "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot",
    "i0", "identity", "iinfo", "imag", "index_exp", "indices", "inexact", "inf", "inner", "insert",
    "int2", "int4", "int8", "int16", "int32", "int64", "int_", "integer", "interp", "intersect1d",
    "invert", "isclose", "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "issubdtype", "iterable",
    "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal", "lexsort",
    "linalg", "linspace", "load", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logspace", "mask_indices", "matmul",
    "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid", "mgrid", "min",
    "minimum", "minmax", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax",
    "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "ndarray", "ndim",
    "negative", "newaxis", "nextafter", "nonzero", "not_equal", "number", "object_", "ogrid",
    "ones", "ones_like", "outer", "packbits", "pad", "partition", "percentile", "permute_dims",
    "pi", "piecewise", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint",
    "polymul", "polysub", "polyval", "positive", "pow", "power", "printoptions", "prod",
    "promote_types", "ptp", "put", "put_along_axis", "quantile", "r_", "rad2deg", "radians",
    "ravel", "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape", "resize",
    "result_type", "right_shift", "rint", "roll", "rollaxis", "roots", "rot90", "round", "s_",
    "save", "savez", "searchsorted", "select", "set_printoptions", "setdiff1d", "setxor1d", "shape",
    "sign", "signbit", "signedinteger", "sin", "sinc", "single", "sinh", "size", "sort",
    "sort_complex", "spacing", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract",
    "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "top_k",
    "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices", "tril_indices_from",
    "trim_zeros", "triu", "triu_indices", "triu_indices_from", "true_divide", "trunc", "ufunc",
    "uint", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64", "union1d", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unpackbits", "unravel_index",
    "unsignedinteger", "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat",
    "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip

name_aliases(globals(), __all__, __name__)
install(Array, globals())
