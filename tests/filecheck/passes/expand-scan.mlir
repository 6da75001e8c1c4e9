// RUN: %gnomon-opt --passes=expand-scan,canonicalize,cse %s | %filecheck %s

// A scan becomes a while over a counter, at which inputs are read and stacked results are written.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   gnomon.scan
// CHECK:       "gnomon.while"
// CHECK:       "gnomon.lt"
// CHECK:       "gnomon.dynamic_slice"
// CHECK:       "gnomon.mul"
// CHECK:       "gnomon.dynamic_update_slice"
func.func @main(%xs: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "gnomon.scan"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %1 = "gnomon.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%1) : (tensor<f32>) -> ()
  }) {consts = 0 : i64, carry = 0 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
