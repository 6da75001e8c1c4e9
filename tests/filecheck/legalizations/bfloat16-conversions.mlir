// RUN: %gnomon-opt --passes=bfloat16-conversions %s | %filecheck %s

// Integers become bf16 by way of f32.

// CHECK: gnomon.convert{{.*}}tensor<3xi32>) -> tensor<3xf32>
// CHECK-NOT: tensor<3xi32>) -> tensor<3xbf16>
func.func @main(%x: tensor<3xi32>) -> tensor<3xbf16> {
  %0 = "gnomon.convert"(%x) {dtype = bf16} : (tensor<3xi32>) -> tensor<3xbf16>
  return %0 : tensor<3xbf16>
}
