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

// Stacked bools are bytes in the loop, and no iteration converts the whole stack.

// CHECK-LABEL: func.func @bools
// CHECK:       "gnomon.convert"{{.*}}tensor<4x3xi1>) -> tensor<4x3xi8>
// CHECK:       "gnomon.while"
// CHECK-NOT:   tensor<4x3xi1>
// CHECK:       "gnomon.dynamic_update_slice"{{.*}}tensor<4x3xi8>
// CHECK-NOT:   tensor<4x3xi1>
// CHECK:       "gnomon.yield"
// CHECK:       "gnomon.convert"{{.*}}tensor<4x3xi8>) -> tensor<4x3xi1>
func.func @bools(%xs: tensor<4x3xi1>) -> tensor<4x3xi1> {
  %0 = "gnomon.scan"(%xs) ({
  ^bb0(%x: tensor<3xi1>):
    %1 = "gnomon.not"(%x) : (tensor<3xi1>) -> tensor<3xi1>
    "gnomon.yield"(%1) : (tensor<3xi1>) -> ()
  }) {consts = 0 : i64, carry = 0 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tensor<4x3xi1>) -> tensor<4x3xi1>
  return %0 : tensor<4x3xi1>
}
