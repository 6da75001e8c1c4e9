// RUN: %gnomon-opt --passes=half-powers %s | %filecheck %s

// A power with a literal half-integer exponent becomes a root and products.

// CHECK-LABEL: func.func @main
// CHECK-NOT: gnomon.pow
// CHECK: gnomon.sqrt
// CHECK: gnomon.mul
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %c = "gnomon.constant"() {value = dense<1.5> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %y = "gnomon.broadcast_in_dim"(%c) {shape = array<i64: 5>, dims = array<i64>} : (tensor<f32>) -> tensor<5xf32>
  %0 = "gnomon.pow"(%x, %y) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
