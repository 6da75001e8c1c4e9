// RUN: %gnomon run --evaluate --input='f32[3]=1,2,3' %s | %filecheck %s
// RUN: %gnomon run --input=1,2,3 %s | %filecheck %s
// RUN: %gnomon compile --emit=stablehlo %s | %filecheck %s --check-prefix=LOWERED
// RUN: %not %gnomon run --input='f32[4]=1' %s 2>&1 | %filecheck %s --check-prefix=ERROR

// CHECK:   f32[3]
// CHECK:   [1. 4. 9.]
// LOWERED: stablehlo.multiply
// ERROR:   the program takes f32[3] as arg0
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.mul"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
