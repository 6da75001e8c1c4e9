"""Examples of generated functions of `gnomon.scipy.special`."""

from __future__ import annotations

SCIPY: dict[str, str] = {
    "digamma": """
>>> special.digamma(gnp.array([1.0, 2.0])).round(4)
Array([-0.5772,  0.4228], dtype=float32)
""",
    "erf": """
>>> special.erf(gnp.array([-1.0, 0.0, 1.0])).round(4)
Array([-0.8427,  0.    ,  0.8427], dtype=float32)
""",
    "erfc": """
>>> special.erfc(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 0.1573], dtype=float32)
>>> 1 - special.erf(10.0), special.erfc(10.0) > 0
(Array(0., dtype=float32, weak_type=True), Array(True, dtype=bool, weak_type=True))
""",
    "erfinv": """
>>> special.erfinv(gnp.array([0.0, 0.5, 1.0])).round(4)
Array([0.    , 0.4769,    inf], dtype=float32)
""",
    "i0e": """
>>> special.i0e(gnp.array([0.0, 1.0])).round(4)
Array([1.    , 0.4658], dtype=float32)
""",
    "i1e": """
>>> special.i1e(gnp.array([0.0, 1.0])).round(4)
Array([0.    , 0.2079], dtype=float32)
""",
    "polygamma": """
>>> special.polygamma(1, gnp.array([1.0, 2.0])).round(4)
Array([1.6449, 0.6449], dtype=float32)
""",
}
