// RUN: %gnomon-opt --passes=hoist-invariants,canonicalize %s | %filecheck %s

// The sine depends on the loop's constant only; the carry %b is returned unchanged.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[W:.*]]: tensor<f32>, %[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>)
// CHECK:       %[[SIN:.*]] = "gnomon.sin"(%[[W]])
// CHECK:       "gnomon.scan"
// CHECK-NOT:   gnomon.sin
// CHECK:       carry = 1 : i64
// CHECK:       return %{{.*}}, %[[B]]
func.func @main(%w: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = "gnomon.scan"(%w, %a, %b) ({
  ^bb0(%c: tensor<f32>, %x: tensor<f32>, %y: tensor<f32>):
    %1 = "gnomon.sin"(%c) : (tensor<f32>) -> tensor<f32>
    %2 = "gnomon.mul"(%1, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %3 = "gnomon.add"(%2, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%3, %y) : (tensor<f32>, tensor<f32>) -> ()
  }) {consts = 1 : i64, carry = 2 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
