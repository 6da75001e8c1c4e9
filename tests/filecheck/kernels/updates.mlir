// The carry of a loop is copied from the argument once, and updated in place.
// RUN: %gnomon compile --emit=loops %s | %filecheck %s

// CHECK-NOT:  memref.view
// CHECK:      scf.for
// CHECK:        memref.load %in0[
// CHECK-NEXT:   memref.store {{.*}}, %out0[
// CHECK:      scf.while
// CHECK:        scf.condition
// CHECK:      } do {
// CHECK:        arith.cmpi ult
// CHECK:        scf.if
// CHECK:          memref.load %out0[
// CHECK:          arith.addf
// CHECK:          memref.store {{.*}}, %out0[
// CHECK-NOT:  %out0
func.func @main(%x: tensor<8x5xf32>, %u: tensor<5xf32>) -> tensor<8x5xf32> {
  %zero = "gnomon.constant"() {dtype = i32, value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = builtin.unrealized_conversion_cast %u, %zero, %x : tensor<5xf32>, tensor<i32>, tensor<8x5xf32> to tuple<tensor<5xf32>, tensor<i32>, tensor<8x5xf32>>
  %1 = "gnomon.scan"(%0) ({
  ^bb0(%v: tensor<5xf32>, %i: tensor<i32>, %y: tensor<8x5xf32>):
    %one = "gnomon.constant"() {dtype = i32, value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %next = "gnomon.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %at = "gnomon.reshape"(%i) {shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
    %z = "gnomon.scatter_add"(%y, %at, %v) {indices_are_sorted = true, inserted_window_dims = array<i64: 0>, mode = "drop", operand_batching_dims = array<i64>, scatter_dims_to_operand_dims = array<i64: 0>, scatter_indices_batching_dims = array<i64>, unique_indices = true, update_window_dims = array<i64: 0>} : (tensor<8x5xf32>, tensor<1xi32>, tensor<5xf32>) -> tensor<8x5xf32>
    %r = builtin.unrealized_conversion_cast %next, %z : tensor<i32>, tensor<8x5xf32> to tuple<tensor<i32>, tensor<8x5xf32>>
    "gnomon.yield"(%r) : (tuple<tensor<i32>, tensor<8x5xf32>>) -> ()
  }) {carry = 2 : i64, consts = 1 : i64, length = 10 : i64, reverse = false, unroll = 1 : i64} : (tuple<tensor<5xf32>, tensor<i32>, tensor<8x5xf32>>) -> tuple<tensor<i32>, tensor<8x5xf32>>
  %2:2 = builtin.unrealized_conversion_cast %1 : tuple<tensor<i32>, tensor<8x5xf32>> to tensor<i32>, tensor<8x5xf32>
  return %2#1 : tensor<8x5xf32>
}
