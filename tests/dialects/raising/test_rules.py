"""The rules: values by StableHLO's specification where they differ from a plain reading."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.dialects.mlir import context, ensure_context
from gnomon.dialects.raising import RULES
from gnomon.passes.raise_stablehlo import RaiseError, load_chlo
from tests.dialects.raising.evaluate import evaluate, raised

STABLEHLO = (
    "abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 "
    "batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast "
    "broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute "
    "collective_reduce compare complex composite concatenate constant convert convolution cosine "
    "count_leading_zeros create_token custom_call divide dot dot_general dynamic_broadcast_in_dim "
    "dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice "
    "dynamic_update_slice einsum exponential exponential_minus_one fft floor gather "
    "get_dimension_size get_tuple_element if imag infeed iota is_finite log log_plus_one logistic "
    "map maximum minimum multiply negate not optimization_barrier or outfeed pad partition_id "
    "popcnt power real real_dynamic_slice recv reduce reduce_precision reduce_scatter "
    "reduce_window remainder replica_id reshape reverse rng rng_bit_generator round_nearest_afz "
    "round_nearest_even rsqrt scatter select select_and_scatter send set_dimension_size shift_left "
    "shift_right_arithmetic shift_right_logical sign sine sort sqrt subtract tan tanh "
    "torch_index_select transpose triangular_solve tuple unary_einsum uniform_dequantize "
    "uniform_quantize while xor"
)


def test_every_op_has_a_rule_or_a_refusal() -> None:
    """All ops of StableHLO; every rule is for an op that exists."""
    ensure_context()
    load_chlo()
    assert {f"stablehlo.{name}" for name in STABLEHLO.split()} <= RULES.keys()
    others = {name for name in RULES if not context().is_registered_operation(name)}
    assert all(name.startswith("sdy.") for name in others)


PROGRAM = """
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.add %x, %x : tensor<f32>
  return %r : tensor<f32>
}
func.func @main(%x: tensor<4xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %s: tensor<i32>,
                %k: tensor<4xi32>, %f: tensor<f32>)
    -> (tensor<3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<f32>,
        tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xi32>) {
  // Starts are clamped.
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1>}> : (tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  // Updates out of bounds are dropped.
  %1 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  // A function of the dialect's own, applied in order: old / 2 + new.
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %2 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %h = stablehlo.multiply %a, %half : tensor<f32>
    %t = stablehlo.add %h, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
  // Equal keys keep their order, descending; the values tell them apart.
  %n = stablehlo.iota dim = 0 : tensor<4xi32>
  %3:2 = "stablehlo.sort"(%k, %n) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %t = stablehlo.compare GT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }) : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
  // An index out of bounds selects the last branch.
  %4 = "stablehlo.case"(%s) ({
    stablehlo.return %f : tensor<f32>
  }, {
    %t = func.call @twice(%f) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  // The last element, by a function that is not a reduction of the dialect.
  %5 = "stablehlo.reduce"(%x, %f) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %b, %half : tensor<f32>
    %m = stablehlo.subtract %t, %half : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  // A loop that captures values.
  %6 = stablehlo.while(%c = %f) : tensor<f32>
    cond {
      %t = stablehlo.compare LT, %c, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %t = stablehlo.add %c, %f : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }
  // Negative bases, and integers to integers.
  %7 = stablehlo.power %x, %x : tensor<4xf32>
  %8 = stablehlo.power %k, %k : tensor<4xi32>
  return %0, %1, %2, %3#0, %3#1, %4, %5, %6, %7, %8 : tensor<3xf32>, tensor<4xf32>,
      tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<f32>, tensor<f32>, tensor<f32>,
      tensor<4xf32>, tensor<4xi32>
}
""".replace(
    "  %6 = stablehlo.while",
    "  %limit = stablehlo.constant dense<7.0> : tensor<f32>\n  %6 = stablehlo.while",
)


def test_values_by_the_specification() -> None:
    """Bounds, order, captured values, powers."""
    x = np.array([-2, 1, 3, 2], np.float32)
    indices, updates = [[1], [9], [1]], [10, 20, 30]
    keys = np.array([2, -1, 2, 0], np.int32)
    for index in (-1, 1, 5):
        results = evaluate(PROGRAM, x, indices, updates, index, keys, 3.0)
        np.testing.assert_array_equal(results[0], [1, 2, 1])
        np.testing.assert_array_equal(results[1], [-2, 41, 3, 2])
        np.testing.assert_array_equal(results[2], [-2, 35.25, 3, 2])
        np.testing.assert_array_equal(results[3], [2, 2, 0, -1])
        np.testing.assert_array_equal(results[4], [0, 2, 3, 1])
        assert results[5] == 6
        assert results[6] == 2
        assert results[7] == 9
        np.testing.assert_array_equal(results[8], [0.25, 1, 27, 4])
        np.testing.assert_array_equal(results[9], [4, -1, 4, 1])


WINDOWS = """
func.func @main(%x: tensor<5xf32>, %u: tensor<2xf32>, %z: tensor<1x1xi32>, %w: tensor<1x3xf32>,
                %init: tensor<f32>)
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<3xf32>, tensor<5xf32>) {
  // The gradient of pooling: GE keeps the first of equal elements, GT the last.
  %0 = "stablehlo.select_and_scatter"(%x, %u, %init) <{window_dimensions = array<i64: 3>,
      window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<5xf32>, tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = "stablehlo.select_and_scatter"(%x, %u, %init) <{window_dimensions = array<i64: 3>,
      window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<5xf32>, tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
  // Of a window that is partly out of bounds, the elements in bounds are written.
  %2 = "stablehlo.scatter"(%x, %z, %w) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<5xf32>, tensor<1x1xi32>, tensor<1x3xf32>) -> tensor<5xf32>
  // Padding is the initial value, whatever it is.
  %3 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>,
      window_strides = array<i64: 2>, padding = dense<1> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<5xf32>, tensor<f32>) -> tensor<3xf32>
  // A comparator that is no order of keys: by distance from two.
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %4 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.subtract %a, %two : tensor<f32>
    %d = stablehlo.subtract %b, %two : tensor<f32>
    %e = stablehlo.abs %c : tensor<f32>
    %f = stablehlo.abs %d : tensor<f32>
    %t = stablehlo.compare LT, %e, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1, %2, %3, %4 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<3xf32>,
      tensor<5xf32>
}
"""


def test_windows() -> None:
    """Ties of pooling, partial windows, padding, and sorts by any comparator."""
    x = [1, 4, 4, 0, 4]
    results = evaluate(WINDOWS, x, [10, 20], [[-1]], [[7, 8, 9]], 2.0)
    np.testing.assert_array_equal(results[0], [2, 12, 22, 2, 2])
    np.testing.assert_array_equal(results[1], [2, 2, 12, 2, 22])
    np.testing.assert_array_equal(results[2], [8, 9, 4, 0, 4])
    np.testing.assert_array_equal(results[3], [2 * 2 * 1 * 4, 2 * 4 * 4 * 0, 2 * 0 * 4 * 2])
    np.testing.assert_array_equal(results[4], [1, 4, 4, 0, 4])


OTHERS = """
func.func private @sum(%x: tensor<2xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
func.func @f(%x: tensor<2xf32>, %m: tensor<2x3xf32>)
    -> (tensor<2x2xf32>, tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<3x2x2xf32>,
        tensor<2x2xf32>, tensor<2xi1>, tensor<2x3xf32>) {
  // Dimensions in decreasing order.
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.composite "lib.sum" %x {decomposition = @sum} : (tensor<2xf32>) -> tensor<f32>
  %token = stablehlo.create_token : !stablehlo.token
  %t = stablehlo.tuple %x, %token, %1
      : tuple<tensor<2xf32>, !stablehlo.token, tensor<f32>>
  %2 = stablehlo.get_tuple_element %t[0]
      : (tuple<tensor<2xf32>, !stablehlo.token, tensor<f32>>) -> tensor<2xf32>
  %3 = chlo.erf_inv %x : tensor<2xf32> -> tensor<2xf32>
  %4 = stablehlo.broadcast_in_dim %m, dims = [2, 0] : (tensor<2x3xf32>) -> tensor<3x2x2xf32>
  %5 = stablehlo.dot %m, %n : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %6 = stablehlo.compare LT, %x, %2, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %7 = stablehlo.custom_call @Sharding(%m) {mhlo.sharding = "{replicated}"}
      : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2x2xf32>, tensor<f32>, tensor<2xf32>,
      tensor<2xf32>, tensor<3x2x2xf32>, tensor<2x2xf32>, tensor<2xi1>, tensor<2x3xf32>
}
""".replace(
    "  %5 =",
    "  %n = stablehlo.transpose %m, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n  %5 =",
)


def test_functions_tuples_and_dialects() -> None:
    """Composites are called, tuples flattened, tokens dropped, CHLO and annotations read."""
    x, m = np.array([0.5, -0.25], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    results = evaluate(OTHERS, x, m)
    np.testing.assert_array_equal(results[0], np.repeat(x[:, None], 2, 1))
    assert results[1] == 0.25
    np.testing.assert_array_equal(results[2], x)
    np.testing.assert_allclose(results[3], [0.4769363, -0.2253121], rtol=1e-5)
    np.testing.assert_array_equal(results[4], np.repeat(m.T[:, None, :], 2, 1))
    np.testing.assert_array_equal(results[5], m @ m.T)
    assert not results[6].any()
    np.testing.assert_array_equal(results[7], m)


RAGGED = """
func.func @main(%x: tensor<5x2xf32>, %w: tensor<2x2x3xf32>, %y: tensor<5x3xf32>,
                %s: tensor<2xi32>) -> (tensor<5x3xf32>, tensor<2x2x3xf32>) {
  %0 = "chlo.ragged_dot"(%x, %w, %s) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [],
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}
      : (tensor<5x2xf32>, tensor<2x2x3xf32>, tensor<2xi32>) -> tensor<5x3xf32>
  %1 = "chlo.ragged_dot"(%x, %y, %s) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [],
      lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = []>}
      : (tensor<5x2xf32>, tensor<5x3xf32>, tensor<2xi32>) -> tensor<2x2x3xf32>
  return %0, %1 : tensor<5x3xf32>, tensor<2x2x3xf32>
}
"""


def test_products_of_groups() -> None:
    """Each group of rows has its own matrix, or its own product; rows without a group give 0."""
    drawn = np.random.default_rng(0)
    x, w, y = (drawn.integers(-3, 4, shape) for shape in ((5, 2), (2, 2, 3), (5, 3)))
    results = evaluate(RAGGED, x, w, y, [3, 1])
    np.testing.assert_array_equal(results[0], [*(x[:3] @ w[0]), *(x[3:4] @ w[1]), [0, 0, 0]])
    np.testing.assert_array_equal(results[1], [x[:3].T @ y[:3], x[3:4].T @ y[3:4]])


EXTREMUM = """
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {{
  %i = stablehlo.iota dim = 1 : tensor<2x4xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%x init: %low), (%i init: %zero) across dimensions = [1]
      : (tensor<2x4xf32>, tensor<2x4xi32>, tensor<f32>, tensor<i32>)
      -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {{
      %gt = stablehlo.compare {direction}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %nan = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %first = stablehlo.or %gt, %nan : tensor<i1>
      %eq = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %lt = stablehlo.compare LT, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %tie = stablehlo.and %eq, %lt : tensor<i1>
      %pick = stablehlo.or %first, %tie : tensor<i1>
      %v = stablehlo.select %first, %a, %b : tensor<i1>, tensor<f32>
      %p = stablehlo.select %pick, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %v, %p : tensor<f32>, tensor<i32>
    }}
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}}
"""


def test_positions_of_extrema() -> None:
    """A region that is proved to be argmax becomes it; one that differs for a nan does not."""
    x = np.array([[1, 3, 3, 2], [0, np.nan, 5, np.nan]], np.float32)
    text = EXTREMUM.format(direction="GT")
    assert "gnomon.argmax" in str(raised(text).module)
    values, positions = evaluate(text, x)
    np.testing.assert_array_equal(values, [3, np.nan])
    np.testing.assert_array_equal(positions, [1, 1])
    other = text.replace("or %gt, %nan", "and %gt, %gt")
    assert "gnomon.argmax" not in str(raised(other).module)
    np.testing.assert_array_equal(evaluate(other, np.nan_to_num(x))[1], [1, 2])


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("stablehlo.partition_id : tensor<ui32>", ["stablehlo.partition_id", "other devices"]),
        (
            "stablehlo.custom_call @unknown(%x) : (tensor<2xf32>) -> tensor<2xf32>",
            ["stablehlo.custom_call", "'unknown'"],
        ),
        (
            "stablehlo.uniform_quantize %x : (tensor<2xf32>) -> "
            "tensor<2x!quant.uniform<i8:f32, 0.1>>",
            ["stablehlo.uniform_quantize", "quantized types"],
        ),
        (
            "func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>",
            ["func.call", "@main calls itself"],
        ),
        ("math.exp %x : tensor<2xf32>", ["math.exp", "dialect 'math'"]),
        (
            "stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2xf32>, tensor<i32>) "
            "-> tensor<2xf32>",
            ["stablehlo.set_dimension_size", "sizes of values"],
        ),
    ],
)
def test_refusals_name_the_op_the_reason_and_the_line(statement: str, parts: list[str]) -> None:
    """Nothing is passed on as it is."""
    text = f"""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %n = stablehlo.constant dense<1> : tensor<i32>
      %0 = {statement}
      return %x : tensor<2xf32>
    }}"""
    with pytest.raises(RaiseError) as caught:
        raised(text)
    for part in (*parts, ":3:"):
        assert part in str(caught.value)
    assert str(caught.value).count(":3:") == 1


def test_modules_without_one_public_function_are_refused() -> None:
    """The message has the names."""
    with pytest.raises(RaiseError, match="functions: f, g"):
        raised("func.func @f() { return }\nfunc.func @g() { return }")


def test_random_bits_of_a_state_of_signed_words_are_refused() -> None:
    """IREE has such states, and bits of its own for them."""
    text = """func.func @main(%s: tensor<4xi32>) -> tensor<3xui32> {
      %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX
          : (tensor<4xi32>) -> (tensor<4xi32>, tensor<3xui32>)
      return %1 : tensor<3xui32>
    }"""
    with pytest.raises(RaiseError, match=r"a state of i32\[4\] is not read"):
        raised(text)


def test_the_logarithm_of_gamma_that_jax_writes_by_bits() -> None:
    """By bits it would have no derivative. A function that only has its name is what it says."""
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @lgamma_impl_2(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func private @lgamma_impl_2(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @CALLEE(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func private @CALLEE(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.bitcast_convert %x : (tensor<3xf32>) -> tensor<3xi32>
      %1 = stablehlo.bitcast_convert %0 : (tensor<3xi32>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    x = [0.5, 1.0, 3.0]
    (found,) = evaluate(text.replace("CALLEE", "_lgamma_pos_small"), x)
    np.testing.assert_allclose(found, [0.5723649, 0.0, 0.6931472], rtol=1e-6, atol=1e-7)
    (found,) = evaluate(text.replace("CALLEE", "other"), x)
    np.testing.assert_array_equal(found, np.float32(x))
