// RUN: %gnomon-opt --passes=drop-unused-results,canonicalize %s | %filecheck %s

// The second carry is not used, and the first does not depend on it: no exponential is computed.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   gnomon.exp
// CHECK:       "gnomon.scan"(%{{[^,]*}}) ({
// CHECK-NOT:   gnomon.exp
// CHECK:       carry = 1 : i64
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0:2 = "gnomon.scan"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
    %2 = "gnomon.exp"(%y) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%1, %2) : (tensor<f32>, tensor<f32>) -> ()
  }) {consts = 0 : i64, carry = 2 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}
