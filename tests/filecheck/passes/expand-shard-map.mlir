// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,canonicalize,cse --split-input-file %s | %filecheck %s

// An axis of the mesh becomes a leading dimension of the operands that it splits. A value that all
// members share has no such dimension: %y is broadcast only to multiply %x. A sum of varying values
// reduces the dimension.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<8x9xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK:       %[[SPLIT:.*]] = "gnomon.reshape"(%[[X]]) {shape = array<i64: 4, 2, 3, 3>}
// CHECK:       %[[SHARDS:.*]] = "gnomon.transpose"(%[[SPLIT]]) {permutation = array<i64: 0, 2, 1, 3>}
// CHECK:       %[[LOCAL:.*]] = "gnomon.reduce_sum"(%[[SHARDS]]) {axes = array<i64: 2>}
// CHECK:       %[[ROW:.*]] = "gnomon.reduce_sum"(%[[LOCAL]]) {axes = array<i64: 1>} : (tensor<4x3x3xf32>) -> tensor<4x3xf32>
// CHECK:       %[[TOTAL:.*]] = "gnomon.reduce_sum"(%[[ROW]]) {axes = array<i64: 0>} : (tensor<4x3xf32>) -> tensor<3xf32>
// CHECK:       %[[PRODUCT:.*]] = "gnomon.mul"(%[[SHARDS]], %{{.*}}) : (tensor<4x3x2x3xf32>, tensor<4x3x2x3xf32>)
// CHECK:       %[[ORDER:.*]] = "gnomon.transpose"(%[[PRODUCT]]) {permutation = array<i64: 0, 2, 1, 3>}
// CHECK:       %[[JOINED:.*]] = "gnomon.reshape"(%[[ORDER]]) {shape = array<i64: 8, 9>}
// CHECK:       return %[[JOINED]], %[[TOTAL]]
func.func private @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
  %s = "gnomon.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
  %t = "gnomon.psum_invariant"(%s) {axes = ["i", "j"]} : (tensor<3xf32>) -> tensor<3xf32>
  %z = "gnomon.pvary"(%y) {axes = ["i", "j"]} : (tensor<3xf32>) -> tensor<3xf32>
  %w = "gnomon.broadcast_in_dim"(%z) {dims = array<i64: 1>, shape = array<i64: 2, 3>}
    : (tensor<3xf32>) -> tensor<2x3xf32>
  %u = "gnomon.mul"(%x, %w) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %u, %t : tensor<2x3xf32>, tensor<3xf32>
}
func.func @main(%x: tensor<8x9xf32>, %y: tensor<3xf32>) -> (tensor<8x9xf32>, tensor<3xf32>) {
  %p = builtin.unrealized_conversion_cast %x, %y
    : tensor<8x9xf32>, tensor<3xf32> to tuple<tensor<8x9xf32>, tensor<3xf32>>
  %q = "gnomon.shard_map"(%p) {callee = @f, mesh_axes = ["i", "j"],
                               mesh_sizes = array<i64: 4, 3>, manual_axes = ["i", "j"],
                               in_specs = [[["i"], ["j"]], []], out_specs = [[["i"], ["j"]], []],
                               check_vma = true}
    : (tuple<tensor<8x9xf32>, tensor<3xf32>>) -> tuple<tensor<8x9xf32>, tensor<3xf32>>
  %r:2 = builtin.unrealized_conversion_cast %q
    : tuple<tensor<8x9xf32>, tensor<3xf32>> to tensor<8x9xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<8x9xf32>, tensor<3xf32>
}

// -----

// Inside the function, a gradient with respect to a value that members share is summed over them:
// the transpose of the cast is a sum.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[W:.*]]: tensor<f32>, %[[X:.*]]: tensor<4xf32>)
// CHECK:       %[[G:.*]] = "gnomon.reduce_sum"(%{{.*}}) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
// CHECK-NEXT:  return %[[G]]
func.func private @loss(%w: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %v = "gnomon.pvary"(%w) {axes = ["i"]} : (tensor<f32>) -> tensor<f32>
  %y = "gnomon.mul"(%v, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func private @gradient(%w: tensor<f32>, %x: tensor<1xf32>) -> tensor<f32> {
  %s = "gnomon.reshape"(%x) {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>
  %one = "gnomon.constant"() {dtype = f32, value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %y, %g = "gnomon.vjp"(%w, %s, %one) {callee = @loss, wrt = array<i64: 0>,
                                       outputs = array<i64: 0>}
    : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %g : tensor<f32>
}
func.func @main(%w: tensor<f32>, %x: tensor<4xf32>) -> tensor<f32> {
  %p = builtin.unrealized_conversion_cast %w, %x
    : tensor<f32>, tensor<4xf32> to tuple<tensor<f32>, tensor<4xf32>>
  %g = "gnomon.shard_map"(%p) {callee = @gradient, mesh_axes = ["i"], mesh_sizes = array<i64: 4>,
                               manual_axes = ["i"], in_specs = [[], [["i"]]], out_specs = [[]],
                               check_vma = true}
    : (tuple<tensor<f32>, tensor<4xf32>>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

// Sums within the groups {0, 2} and {1, 3}: members are permuted into the order of their groups,
// and back.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<4xf32>)
// CHECK:       dense<[0, 2, 1, 3]>
// CHECK:       %[[GROUPS:.*]] = "gnomon.reshape"(%{{.*}}) {shape = array<i64: 2, 2, 1>}
// CHECK:       %[[SUMS:.*]] = "gnomon.reduce_sum"(%[[GROUPS]]) {axes = array<i64: 1>}
// CHECK:       "gnomon.broadcast_in_dim"(%[[SUMS]]) {dims = array<i64: 0, 2>, shape = array<i64: 2, 2, 1>}
func.func private @f(%x: tensor<1xf32>) -> tensor<1xf32> {
  %s = "gnomon.psum"(%x) {axes = ["i"], groups = [array<i64: 0, 2>, array<i64: 1, 3>]}
    : (tensor<1xf32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i"], mesh_sizes = array<i64: 4>,
                               manual_axes = ["i"], in_specs = [[["i"]]], out_specs = [[["i"]]],
                               check_vma = false} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
