// RUN: %gnomon run --evaluate --input=3xf32=1,2,3 %s | %filecheck %s
// RUN: %gnomon run --input=1,2,3 %s | %filecheck %s
// RUN: %gnomon lower %s | %filecheck %s --check-prefix=LOWERED
// RUN: %not %gnomon run --input=4xf32=1 %s 2>&1 | %filecheck %s --check-prefix=ERROR

// CHECK:   f32[3]
// CHECK:   [1. 4. 9.]
// LOWERED: stablehlo.multiply
// ERROR:   @main takes f32[3] here
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.mul"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
