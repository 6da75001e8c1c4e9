"""Examples of generated functions of `gnomon.numpy`."""

from __future__ import annotations

NUMPY: dict[str, str] = {
    "add": """
>>> gnp.add(gnp.array([1, 2]), gnp.array([[10], [20]]))
Array([[11, 12],
       [21, 22]], dtype=int32)
>>> gnp.add(True, True)
Array(True, dtype=bool)
""",
    "arccos": """
>>> gnp.arccos(gnp.array([1.0, 0.0])).round(4)
Array([0.    , 1.5708], dtype=float32)
>>> gnp.arccos(2.0)
Array(nan, dtype=float32, weak_type=True)
""",
    "arcsin": """
>>> gnp.arcsin(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 1.5708], dtype=float32)
>>> gnp.arcsin(2.0)
Array(nan, dtype=float32, weak_type=True)
""",
    "arcsinh": """
>>> gnp.arcsinh(gnp.sinh(2.0)).round(4)
Array(2., dtype=float32, weak_type=True)
""",
    "arctan": """
>>> gnp.arctan(gnp.array([0.0, 1.0, gnp.inf])).round(4)
Array([0.    , 0.7854, 1.5708], dtype=float32)
""",
    "arctan2": """
>>> gnp.arctan2(gnp.array([1.0, -1.0]), gnp.array([-1.0, -1.0])).round(4)
Array([ 2.3562, -2.3562], dtype=float32)
>>> gnp.arctan2(0.0, -1.0)
Array(3.1415927, dtype=float32, weak_type=True)
""",
    "arctanh": """
>>> gnp.arctanh(gnp.array([0.0, 1.0, 2.0]))
Array([ 0., inf, nan], dtype=float32)
""",
    "bitwise_and": """
>>> gnp.bitwise_and(gnp.array([12, 10]), 6)
Array([4, 2], dtype=int32)
""",
    "bitwise_invert": """
>>> gnp.bitwise_invert(gnp.array([0, 5]))
Array([-1, -6], dtype=int32)
>>> gnp.bitwise_invert(gnp.array([True, False]))
Array([False,  True], dtype=bool)
""",
    "bitwise_or": """
>>> gnp.bitwise_or(gnp.array([12, 10]), 6)
Array([14, 14], dtype=int32)
""",
    "bitwise_xor": """
>>> gnp.bitwise_xor(gnp.array([12, 10]), 6)
Array([10, 12], dtype=int32)
""",
    "cbrt": """
>>> gnp.cbrt(gnp.array([8.0, -27.0])).round(4)
Array([ 2., -3.], dtype=float32)
>>> gnp.array([-27.0]) ** (1 / 3)
Array([nan], dtype=float32)
""",
    "cos": """
>>> gnp.cos(gnp.array([0.0, gnp.pi]))
Array([ 1., -1.], dtype=float32)
>>> gnp.cos(gnp.deg2rad(60.0)).round(6)
Array(0.5, dtype=float32, weak_type=True)
""",
    "cosh": """
>>> gnp.cosh(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 1.5431], dtype=float32)
""",
    "divide": """
>>> gnp.divide(gnp.array([1, 2, 3]), 2)
Array([0.5, 1. , 1.5], dtype=float32)
>>> gnp.divide(gnp.array([1, 0, -1]), 0)
Array([ inf,  nan, -inf], dtype=float32)
""",
    "empty": """
>>> gnp.empty((2, 3)).shape
(2, 3)
""",
    "equal": """
>>> gnp.equal(gnp.array([1, 2, 3]), gnp.array([1, 0, 3]))
Array([ True, False,  True], dtype=bool)
>>> gnp.equal(gnp.nan, gnp.nan)
Array(False, dtype=bool, weak_type=True)
""",
    "exp": """
>>> gnp.exp(gnp.array([0.0, 1.0, -gnp.inf])).round(4)
Array([1.    , 2.7183, 0.    ], dtype=float32)
""",
    "exp2": """
>>> gnp.exp2(gnp.array([-1, 0, 10]))
Array([5.000e-01, 1.000e+00, 1.024e+03], dtype=float32)
""",
    "expm1": """
>>> gnp.expm1(1e-8)
Array(1.e-08, dtype=float32, weak_type=True)
>>> gnp.exp(1e-8) - 1
Array(0., dtype=float32, weak_type=True)
""",
    "float_power": """
>>> gnp.float_power(2, gnp.array([-1, 0, 3]))
Array([0.5, 1. , 8. ], dtype=float32)
""",
    "greater": """
>>> gnp.greater(gnp.array([1, 2, 3]), 2)
Array([False, False,  True], dtype=bool)
>>> gnp.greater(1 + 5j, 1 + 2j)
Array(True, dtype=bool, weak_type=True)
""",
    "greater_equal": """
>>> gnp.greater_equal(gnp.array([1, 2, 3]), 2)
Array([False,  True,  True], dtype=bool)
""",
    "left_shift": """
>>> gnp.left_shift(gnp.array([1, 5]), 2)
Array([ 4, 20], dtype=int32)
>>> gnp.left_shift(1, 32)
Array(0, dtype=int32, weak_type=True)
""",
    "less": """
>>> gnp.less(gnp.array([1, 2, 3]), 2)
Array([ True, False, False], dtype=bool)
>>> gnp.less(gnp.nan, 1.0)
Array(False, dtype=bool, weak_type=True)
""",
    "less_equal": """
>>> gnp.less_equal(gnp.array([1, 2, 3]), 2)
Array([ True,  True, False], dtype=bool)
""",
    "log": """
>>> gnp.log(gnp.array([1.0, 10.0, 0.0])).round(4)
Array([0.    , 2.3026,   -inf], dtype=float32)
>>> gnp.log(gnp.array([-1.0])), gnp.log(gnp.array([-1 + 0j])).round(4)
(Array([nan], dtype=float32), Array([0.+3.1416j], dtype=complex64))
""",
    "log1p": """
>>> gnp.log1p(1e-8)
Array(1.e-08, dtype=float32, weak_type=True)
>>> gnp.log(1 + 1e-8)
Array(0., dtype=float32, weak_type=True)
""",
    "logical_and": """
>>> gnp.logical_and(gnp.array([0, 1, 2]), gnp.array([1, 0, 3]))
Array([False, False,  True], dtype=bool)
""",
    "logical_or": """
>>> gnp.logical_or(gnp.array([0, 0, 2]), gnp.array([1, 0, 3]))
Array([ True, False,  True], dtype=bool)
""",
    "logical_xor": """
>>> gnp.logical_xor(gnp.array([0, 0, 2]), gnp.array([1, 0, 3]))
Array([ True, False, False], dtype=bool)
""",
    "maximum": """
>>> gnp.maximum(gnp.array([1, 5, 3]), 2)
Array([2, 5, 3], dtype=int32)
>>> gnp.maximum(gnp.nan, 1.0)
Array(nan, dtype=float32, weak_type=True)
""",
    "minimum": """
>>> gnp.minimum(gnp.array([1, 5, 3]), 2)
Array([1, 2, 2], dtype=int32)
>>> gnp.minimum(gnp.nan, 1.0)
Array(nan, dtype=float32, weak_type=True)
""",
    "multiply": """
>>> gnp.multiply(gnp.array([1, 2, 3]), 2.5)
Array([2.5, 5. , 7.5], dtype=float32, weak_type=True)
>>> gnp.multiply(gnp.uint8(16), gnp.uint8(17))
Array(16, dtype=uint8)
""",
    "negative": """
>>> gnp.negative(gnp.array([1, -2]))
Array([-1,  2], dtype=int32)
>>> gnp.negative(gnp.uint8(1))
Array(255, dtype=uint8)
""",
    "nextafter": """
>>> gnp.nextafter(1.0, 2.0)
Array(1.0000001, dtype=float32, weak_type=True)
>>> gnp.nextafter(1.0, 2.0) == 1 + gnp.finfo(gnp.float32).eps
Array(True, dtype=bool)
""",
    "not_equal": """
>>> gnp.not_equal(gnp.array([1, 2, 3]), gnp.array([1, 0, 3]))
Array([False,  True, False], dtype=bool)
>>> gnp.not_equal(gnp.nan, gnp.nan)
Array(True, dtype=bool, weak_type=True)
""",
    "ones": """
>>> gnp.ones((2, 3), dtype=gnp.int32)
Array([[1, 1, 1],
       [1, 1, 1]], dtype=int32)
""",
    "ones_like": """
>>> gnp.ones_like(gnp.array([[1.5, 2.5]]))
Array([[1., 1.]], dtype=float32)
""",
    "sign": """
>>> gnp.sign(gnp.array([-3.0, 0.0, 5.0]))
Array([-1.,  0.,  1.], dtype=float32)
>>> gnp.sign(gnp.array([3 + 4j]))
Array([0.6+0.8j], dtype=complex64)
""",
    "sin": """
>>> gnp.sin(gnp.array([0.0, gnp.pi / 2]))
Array([0., 1.], dtype=float32)
>>> gnp.sin(gnp.pi).round(10)
Array(-8.74e-08, dtype=float32, weak_type=True)
""",
    "sinh": """
>>> gnp.sinh(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 1.1752], dtype=float32)
""",
    "sqrt": """
>>> gnp.sqrt(gnp.array([4, 9]))
Array([2., 3.], dtype=float32)
>>> gnp.sqrt(-1.0), gnp.sqrt(-1 + 0j)
(Array(nan, dtype=float32, weak_type=True), Array(0.+1.j, dtype=complex64, weak_type=True))
""",
    "square": """
>>> gnp.square(gnp.array([-3, 4]))
Array([ 9, 16], dtype=int32)
>>> gnp.square(1j)
Array(-1.+0.j, dtype=complex64, weak_type=True)
""",
    "subtract": """
>>> gnp.subtract(gnp.array([5, 2]), 3)
Array([ 2, -1], dtype=int32)
>>> gnp.subtract(gnp.uint8(1), gnp.uint8(2))
Array(255, dtype=uint8)
""",
    "tan": """
>>> gnp.tan(gnp.array([0.0, gnp.pi / 4])).round(6)
Array([0., 1.], dtype=float32)
""",
    "tanh": """
>>> gnp.tanh(gnp.array([0.0, 0.5, 100.0])).round(4)
Array([0.    , 0.4621, 1.    ], dtype=float32)
""",
    "true_divide": """
>>> gnp.true_divide(gnp.array([1, 2, 3]), 2)
Array([0.5, 1. , 1.5], dtype=float32)
>>> gnp.true_divide(gnp.array([1, 0, -1]), 0)
Array([ inf,  nan, -inf], dtype=float32)
""",
    "zeros": """
>>> gnp.zeros(3)
Array([0., 0., 0.], dtype=float32)
>>> gnp.zeros((2, 2), dtype=gnp.int32)
Array([[0, 0],
       [0, 0]], dtype=int32)
""",
    "zeros_like": """
>>> gnp.zeros_like(gnp.array([1, 2, 3]))
Array([0, 0, 0], dtype=int32)
>>> gnp.zeros_like(gnp.array([1, 2, 3]), dtype=float, shape=(2, 2))
Array([[0., 0.],
       [0., 0.]], dtype=float32)
""",
}
