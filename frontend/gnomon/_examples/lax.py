"""Examples of generated functions of `gnomon.lax`."""

from __future__ import annotations

LAX: dict[str, str] = {
    "abs": """
>>> lax.abs(gnp.array([-2.0, 3.0]))
Array([2., 3.], dtype=float32)
""",
    "acos": """
>>> lax.acos(gnp.array([1.0, 0.0])).round(4)
Array([0.    , 1.5708], dtype=float32)
""",
    "acosh": """
>>> lax.acosh(gnp.array([1.0, 10.0])).round(4)
Array([0.    , 2.9932], dtype=float32)
""",
    "add": """
>>> lax.add(gnp.array([1, 2]), gnp.array([10, 20]))
Array([11, 22], dtype=int32)
>>> lax.add(gnp.array([1, 2]), 5)
Array([6, 7], dtype=int32)
>>> lax.add(gnp.array([1, 2]), gnp.array([1.0, 2.0]))
Traceback (most recent call last):
    ...
TypeError: lax.add requires arguments of one dtype, got int32, float32. Convert ...
""",
    "argmax": """
>>> lax.argmax(gnp.array([[1, 9], [7, 7]]), 1, gnp.int32)
Array([1, 0], dtype=int32)
""",
    "argmin": """
>>> lax.argmin(gnp.array([[1, 9], [7, 7]]), 1, gnp.int32)
Array([0, 0], dtype=int32)
""",
    "asin": """
>>> lax.asin(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 1.5708], dtype=float32)
""",
    "asinh": """
>>> lax.asinh(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 0.8814], dtype=float32)
""",
    "atan": """
>>> lax.atan(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 0.7854], dtype=float32)
""",
    "atan2": """
>>> lax.atan2(gnp.array([1.0, -1.0]), gnp.array([-1.0, -1.0])).round(4)
Array([ 2.3562, -2.3562], dtype=float32)
""",
    "atanh": """
>>> lax.atanh(gnp.array([0.0, 0.5])).round(4)
Array([0.    , 0.5493], dtype=float32)
""",
    "bessel_i0e": """
>>> lax.bessel_i0e(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 0.4658], dtype=float32)
""",
    "bessel_i1e": """
>>> lax.bessel_i1e(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 0.2079], dtype=float32)
""",
    "bitwise_and": """
>>> lax.bitwise_and(gnp.array([12, 10]), 6)
Array([4, 2], dtype=int32)
""",
    "bitwise_not": """
>>> lax.bitwise_not(gnp.array([0, 5]))
Array([-1, -6], dtype=int32)
""",
    "bitwise_or": """
>>> lax.bitwise_or(gnp.array([12, 10]), 6)
Array([14, 14], dtype=int32)
""",
    "bitwise_xor": """
>>> lax.bitwise_xor(gnp.array([12, 10]), 6)
Array([10, 12], dtype=int32)
""",
    "cbrt": """
>>> lax.cbrt(gnp.array([8.0, -27.0])).round(4)
Array([ 2., -3.], dtype=float32)
""",
    "ceil": """
>>> lax.ceil(gnp.array([1.2, -1.2]))
Array([ 2., -1.], dtype=float32)
""",
    "clz": """
>>> lax.clz(gnp.array([1, 16], dtype=gnp.uint8))
Array([7, 3], dtype=uint8)
""",
    "complex": """
>>> lax.complex(gnp.array([1.0, 2.0]), gnp.array([3.0, 4.0]))
Array([1.+3.j, 2.+4.j], dtype=complex64)
""",
    "cos": """
>>> lax.cos(gnp.array([0.0, gnp.pi]))
Array([ 1., -1.], dtype=float32)
""",
    "cosh": """
>>> lax.cosh(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 1.5431], dtype=float32)
""",
    "cumlogsumexp": """
>>> lax.cumlogsumexp(gnp.array([0.0, 0.0, 0.0])).round(4)
Array([0.    , 0.6931, 1.0986], dtype=float32)
""",
    "cummax": """
>>> lax.cummax(gnp.array([1, 3, 2, 5]))
Array([1, 3, 3, 5], dtype=int32)
>>> lax.cummax(gnp.array([1, 3, 2, 5]), reverse=True)
Array([5, 5, 5, 5], dtype=int32)
""",
    "cummin": """
>>> lax.cummin(gnp.array([4, 5, 2, 3]))
Array([4, 4, 2, 2], dtype=int32)
""",
    "cumprod": """
>>> lax.cumprod(gnp.array([1, 2, 3, 4]))
Array([ 1,  2,  6, 24], dtype=int32)
""",
    "cumsum": """
>>> lax.cumsum(gnp.array([[1, 2], [3, 4]]), axis=1)
Array([[1, 3],
       [3, 7]], dtype=int32)
>>> lax.cumsum(gnp.array([1, 2, 3]), reverse=True)
Array([6, 5, 3], dtype=int32)
""",
    "digamma": """
>>> lax.digamma(gnp.array([1.0, 2.0])).round(4)
Array([-0.5772,  0.4228], dtype=float32)
""",
    "div": """
>>> lax.div(gnp.array([7, -7, 1]), gnp.array([2, 2, 0]))
Array([ 3, -3, -1], dtype=int32)
>>> lax.div(gnp.array([7.0]), 2.0)
Array([3.5], dtype=float32)
""",
    "eq": """
>>> lax.eq(gnp.array([1, 2]), gnp.array([1, 3]))
Array([ True, False], dtype=bool)
""",
    "erf": """
>>> lax.erf(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 0.8427], dtype=float32)
""",
    "erf_inv": """
>>> lax.erf_inv(gnp.array([0.0, 0.5, 1.0])).round(4)
Array([0.    , 0.4769,    inf], dtype=float32)
""",
    "erfc": """
>>> lax.erfc(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 0.1573], dtype=float32)
""",
    "exp": """
>>> lax.exp(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 2.7183], dtype=float32)
""",
    "exp2": """
>>> lax.exp2(gnp.array([0.0, 10.0]))
Array([1.000e+00, 1.024e+03], dtype=float32)
""",
    "expm1": """
>>> lax.expm1(1e-8)
Array(1.e-08, dtype=float32, weak_type=True)
""",
    "floor": """
>>> lax.floor(gnp.array([1.8, -1.2]))
Array([ 1., -2.], dtype=float32)
""",
    "ge": """
>>> lax.ge(gnp.array([1, 2, 3]), 2)
Array([False,  True,  True], dtype=bool)
""",
    "gt": """
>>> lax.gt(gnp.array([1, 2, 3]), 2)
Array([False, False,  True], dtype=bool)
""",
    "imag": """
>>> lax.imag(gnp.array([1 + 2j]))
Array([2.], dtype=float32)
""",
    "is_finite": """
>>> lax.is_finite(gnp.array([1.0, gnp.inf, gnp.nan]))
Array([ True, False, False], dtype=bool)
""",
    "le": """
>>> lax.le(gnp.array([1, 2, 3]), 2)
Array([ True,  True, False], dtype=bool)
""",
    "lgamma": """
>>> lax.lgamma(gnp.array([1.0, 5.0])).round(4)
Array([0.    , 3.1781], dtype=float32)
""",
    "log": """
>>> lax.log(gnp.array([1.0, 10.0])).round(4)
Array([0.    , 2.3026], dtype=float32)
""",
    "log1p": """
>>> lax.log1p(1e-8)
Array(1.e-08, dtype=float32, weak_type=True)
""",
    "logistic": """
>>> lax.logistic(gnp.array([-100.0, 0.0, 100.0])).round(4)
Array([0. , 0.5, 1. ], dtype=float32)
""",
    "lt": """
>>> lax.lt(gnp.array([1, 2, 3]), 2)
Array([ True, False, False], dtype=bool)
""",
    "max": """
>>> lax.max(gnp.array([1, 5]), 3)
Array([3, 5], dtype=int32)
""",
    "min": """
>>> lax.min(gnp.array([1, 5]), 3)
Array([1, 3], dtype=int32)
""",
    "ne": """
>>> lax.ne(gnp.array([1, 2]), gnp.array([1, 3]))
Array([False,  True], dtype=bool)
""",
    "neg": """
>>> lax.neg(gnp.array([1, -2]))
Array([-1,  2], dtype=int32)
""",
    "population_count": """
>>> lax.population_count(gnp.array([0, 7, -1], dtype=gnp.int8))
Array([0, 3, 8], dtype=int8)
""",
    "random_gamma_grad": """
>>> lax.random_gamma_grad(2.0, 1.5).round(4)
Array(0.9366, dtype=float32, weak_type=True)
""",
    "real": """
>>> lax.real(gnp.array([1 + 2j]))
Array([1.], dtype=float32)
""",
    "reduce_and": """
>>> lax.reduce_and(gnp.array([[6, 3], [12, 4]]), (1,))
Array([2, 4], dtype=int32)
""",
    "reduce_max": """
>>> lax.reduce_max(gnp.array([[1, 5], [7, 2]]), (1,))
Array([5, 7], dtype=int32)
""",
    "reduce_min": """
>>> lax.reduce_min(gnp.array([[1, 5], [7, 2]]), (1,))
Array([1, 2], dtype=int32)
""",
    "reduce_or": """
>>> lax.reduce_or(gnp.array([[6, 3], [12, 4]]), (1,))
Array([ 7, 12], dtype=int32)
""",
    "reduce_prod": """
>>> lax.reduce_prod(gnp.array([[1, 5], [7, 2]]), (0, 1))
Array(70, dtype=int32)
""",
    "reduce_sum": """
>>> lax.reduce_sum(gnp.array([[1, 5], [7, 2]]), (0,))
Array([8, 7], dtype=int32)
>>> lax.reduce_sum(gnp.array([100, 100], dtype=gnp.int8), (0,))
Array(-56, dtype=int8)
""",
    "reduce_xor": """
>>> lax.reduce_xor(gnp.array([[6, 3], [12, 4]]), (1,))
Array([5, 8], dtype=int32)
""",
    "rem": """
>>> lax.rem(gnp.array([7, -7]), 3)
Array([ 1, -1], dtype=int32)
""",
    "rsqrt": """
>>> lax.rsqrt(gnp.array([4.0, 0.25]))
Array([0.5, 2. ], dtype=float32)
""",
    "scatter": """
>>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter(gnp.zeros(4), gnp.array([[1], [3]]), gnp.array([7.0, 8.0]), numbers)
Array([0., 7., 0., 8.], dtype=float32)
""",
    "scatter_add": """
>>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter_add(gnp.zeros(3), gnp.array([[1], [1]]), gnp.array([7.0, 8.0]), numbers)
Array([ 0., 15.,  0.], dtype=float32)
""",
    "scatter_max": """
>>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter_max(gnp.zeros(3), gnp.array([[0], [1]]), gnp.array([7.0, -8.0]), numbers)
Array([7., 0., 0.], dtype=float32)
""",
    "scatter_min": """
>>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter_min(gnp.zeros(3), gnp.array([[0], [1]]), gnp.array([7.0, -8.0]), numbers)
Array([ 0., -8.,  0.], dtype=float32)
""",
    "scatter_mul": """
>>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
>>> lax.scatter_mul(gnp.ones(3), gnp.array([[1], [1]]), gnp.array([2.0, 5.0]), numbers)
Array([ 1., 10.,  1.], dtype=float32)
""",
    "shift_left": """
>>> lax.shift_left(gnp.array([1, 5]), 2)
Array([ 4, 20], dtype=int32)
""",
    "shift_right_arithmetic": """
>>> lax.shift_right_arithmetic(gnp.array([20, -20]), 2)
Array([ 5, -5], dtype=int32)
""",
    "shift_right_logical": """
>>> lax.shift_right_logical(gnp.array([20, -20], dtype=gnp.int8), gnp.int8(2))
Array([ 5, 59], dtype=int8)
""",
    "sign": """
>>> lax.sign(gnp.array([-3.0, 0.0, 5.0]))
Array([-1.,  0.,  1.], dtype=float32)
""",
    "sin": """
>>> lax.sin(gnp.array([0.0, gnp.pi / 2]))
Array([0., 1.], dtype=float32)
""",
    "sinh": """
>>> lax.sinh(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 1.1752], dtype=float32)
""",
    "sqrt": """
>>> lax.sqrt(gnp.array([4.0, -1.0]))
Array([ 2., nan], dtype=float32)
""",
    "square": """
>>> lax.square(gnp.array([-3, 4]))
Array([ 9, 16], dtype=int32)
""",
    "sub": """
>>> lax.sub(gnp.array([5, 2]), 3)
Array([ 2, -1], dtype=int32)
""",
    "tan": """
>>> lax.tan(gnp.array([0.0, gnp.pi / 4])).round(4)
Array([0., 1.], dtype=float32)
""",
    "tanh": """
>>> lax.tanh(gnp.array([0.0, 0.5])).round(4)
Array([0.    , 0.4621], dtype=float32)
""",
}
