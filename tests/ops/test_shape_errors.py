"""Operands that the type rules of structural, dynamic and reduction ops reject, and the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.dialects.contract import REGISTRY, TypeRuleError
from gnomon.dialects.types import TensorType

F32, I32, BOOL = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_)


def f32(*shape: int) -> TensorType:
    return TensorType(shape, F32)


INDEX = TensorType((), I32)
PADDING = {"low": (0,), "high": (0,), "interior": (0,)}

REJECTED: list[tuple[str, list[TensorType], dict[str, Any], str]] = [
    ("constant", [], {"value": np.zeros(3), "dtype": F32}, "stored as f32, got f64"),
    (
        "constant",
        [],
        {"value": np.zeros(3, F32), "dtype": np.dtype(np.complex64)},
        r"trailing dimension of size 2, got shape \(3,\)",
    ),
    ("iota", [], {"dtype": I32, "shape": (2, 3), "dimension": 2}, "dimension 2 is out of range"),
    ("iota", [], {"dtype": I32, "shape": (-1,), "dimension": 0}, "negative size"),
    ("iota", [], {"dtype": BOOL, "shape": (3,), "dimension": 0}, "got bool"),
    ("broadcast_in_dim", [f32(3)], {"shape": (2, 4), "dims": (1,)}, "must be 1 or those of"),
    ("broadcast_in_dim", [f32(3)], {"shape": (2, 3), "dims": ()}, "for each dimension of"),
    ("broadcast_in_dim", [f32(2, 3)], {"shape": (3, 2), "dims": (1, 0)}, "increasing order"),
    ("reshape", [f32(6)], {"shape": (4, 2)}, "has 6 elements, but shape .* has 8"),
    ("reshape", [f32(6)], {"shape": (-2, -3)}, "has 6 elements"),
    ("transpose", [f32(2, 3)], {"permutation": (0, 0)}, "not a permutation"),
    ("rev", [f32(2)], {"dims": (1,)}, "distinct dimensions"),
    ("concatenate", [], {"dimension": 0}, "at least one operand"),
    ("concatenate", [f32(2, 3), f32(2, 2)], {"dimension": 0}, "agree in all dimensions except 0"),
    ("concatenate", [f32(2), TensorType((2,), I32)], {"dimension": 0}, "one dtype"),
    ("concatenate", [f32()], {"dimension": 0}, "dimension 0 is out of range"),
    ("slice", [f32(4)], {"start": (2,), "limit": (5,), "strides": (1,)}, "start <= limit <= size"),
    ("slice", [f32(4)], {"start": (0,), "limit": (4,), "strides": (0,)}, "must be positive"),
    ("slice", [f32(4)], {"start": (), "limit": (), "strides": ()}, "one number for each"),
    ("pad", [f32(3), f32(1)], PADDING, "rank-0 array of the operand's dtype"),
    ("pad", [f32(3), INDEX], PADDING, "rank-0 array of the operand's dtype"),
    ("pad", [f32(3), f32()], PADDING | {"interior": (-1,)}, "must be >= 0"),
    ("pad", [f32(3), f32()], PADDING | {"low": (-2,), "high": (-2,)}, "removes too many elements"),
    ("pad", [f32(3), f32()], PADDING | {"low": (1, 1)}, "for each of the 1 dimensions"),
    ("dynamic_slice", [f32(4, 4), INDEX], {"sizes": (2, 2)}, "got 1"),
    ("dynamic_slice", [f32(4), f32()], {"sizes": (2,)}, "rank-0 integers"),
    ("dynamic_slice", [f32(4), TensorType((1,), I32)], {"sizes": (2,)}, "rank-0 integers"),
    ("dynamic_slice", [f32(4), INDEX], {"sizes": (5,)}, "does not fit into"),
    ("dynamic_update_slice", [f32(4), f32(5), INDEX], {}, "does not fit into"),
    ("dynamic_update_slice", [f32(4), TensorType((2,), I32), INDEX], {}, "one dtype"),
    ("reduce_sum", [f32(2, 3)], {"axes": (2,)}, "distinct dimensions"),
    ("reduce_sum", [f32(2, 3)], {"axes": (1, 1)}, "distinct dimensions"),
    ("reduce_sum", [TensorType((2,), BOOL)], {"axes": (0,)}, "got bool"),
    ("reduce_and", [f32(2)], {"axes": (0,)}, "got f32"),
    ("argmax", [f32(2, 0)], {"axis": 1, "index_dtype": I32}, "is empty"),
    ("argmax", [f32(2)], {"axis": 1, "index_dtype": I32}, "not a dimension"),
    ("argmax", [f32(2)], {"axis": 0, "index_dtype": F32}, "must be an integer dtype"),
    ("argmin", [f32(300)], {"axis": 0, "index_dtype": np.dtype(np.uint8)}, "holds 299, got u8"),
    (
        "argmax",
        [TensorType((2,), np.dtype(np.complex64))],
        {"axis": 0, "index_dtype": I32},
        "got c64",
    ),
    ("cumsum", [f32(2)], {"axis": -1, "reverse": False}, "not a dimension"),
    ("cumlogsumexp", [TensorType((2,), I32)], {"axis": 0, "reverse": False}, "got i32"),
]


@pytest.mark.parametrize(("op", "types", "params", "message"), REJECTED)
def test_errors_of_the_type_rule(
    op: str, types: list[TensorType], params: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeRuleError, match=message) as caught:
        REGISTRY[f"gnomon.{op}"].infer_types(types, params)
    assert f"gnomon.{op}" in str(caught.value)
