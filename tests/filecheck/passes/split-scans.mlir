// RUN: %gnomon-opt --passes=split-scans,canonicalize,cse %s | %filecheck %s

// Only the recurrent cell's product with the carry stays in the loop; the sum of outer products
// becomes one contraction over the iterations.

// CHECK-LABEL: func.func @main
// CHECK:       "gnomon.dot_general"(%arg3, %arg0){{.*}}tensor<5x2x3xf32>
// CHECK:       "gnomon.scan"
// CHECK:       "gnomon.dot_general"
// CHECK-NOT:   "gnomon.dot_general"
// CHECK:       "gnomon.yield"
// CHECK:       "gnomon.dot_general"{{.*}}lhs_contracting = array<i64: 0, 1>
func.func @main(%w: tensor<3x3xf32>, %h: tensor<2x3xf32>, %s: tensor<3x3xf32>, %xs: tensor<5x2x3xf32>) -> (tensor<2x3xf32>, tensor<3x3xf32>) {
  %in = builtin.unrealized_conversion_cast %w, %h, %s, %xs : tensor<3x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<5x2x3xf32> to tuple<tensor<3x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<5x2x3xf32>>
  %0 = "gnomon.scan"(%in) ({
  ^bb0(%w_: tensor<3x3xf32>, %h_: tensor<2x3xf32>, %s_: tensor<3x3xf32>, %x: tensor<2x3xf32>):
    %1 = "gnomon.dot_general"(%x, %w_) {dtype = f32, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, precision = "default", rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %2 = "gnomon.dot_general"(%h_, %w_) {dtype = f32, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, precision = "default", rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %3 = "gnomon.add"(%1, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %4 = "gnomon.dot_general"(%x, %3) {dtype = f32, lhs_batch = array<i64>, lhs_contracting = array<i64: 0>, precision = "default", rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
    %5 = "gnomon.add"(%s_, %4) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %out = builtin.unrealized_conversion_cast %3, %5 : tensor<2x3xf32>, tensor<3x3xf32> to tuple<tensor<2x3xf32>, tensor<3x3xf32>>
    "gnomon.yield"(%out) : (tuple<tensor<2x3xf32>, tensor<3x3xf32>>) -> ()
  }) {consts = 1 : i64, carry = 2 : i64, length = 5 : i64, reverse = false, unroll = 1 : i64}
    : (tuple<tensor<3x3xf32>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<5x2x3xf32>>) -> tuple<tensor<2x3xf32>, tensor<3x3xf32>>
  %6:2 = builtin.unrealized_conversion_cast %0 : tuple<tensor<2x3xf32>, tensor<3x3xf32>> to tensor<2x3xf32>, tensor<3x3xf32>
  return %6#0, %6#1 : tensor<2x3xf32>, tensor<3x3xf32>
}
