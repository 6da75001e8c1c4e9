"""Examples of generated layers of `gnomon.example_libraries.stax`."""

from __future__ import annotations

LIBRARIES: dict[str, str] = {
    "AvgPool": """
>>> _, apply = stax.AvgPool((2, 2), strides=(2, 2))
>>> apply((), gnp.arange(16.0).reshape(1, 4, 4, 1)).squeeze()
Array([[ 2.5,  4.5],
       [10.5, 12.5]], dtype=float32)
""",
    "MaxPool": """
>>> _, apply = stax.MaxPool((2, 2), strides=(2, 2))
>>> apply((), gnp.arange(16.0).reshape(1, 4, 4, 1)).squeeze()
Array([[ 5.,  7.],
       [13., 15.]], dtype=float32)
""",
    "SumPool": """
>>> _, apply = stax.SumPool((2, 2), strides=(2, 2))
>>> apply((), gnp.arange(16.0).reshape(1, 4, 4, 1)).squeeze()
Array([[10., 18.],
       [42., 50.]], dtype=float32)
""",
}
