// RUN: %gnomon-opt --pipeline=iree --print-ir-after=lower-to-stablehlo %s 2>&1 | %filecheck %s

// A host function is declared where its call is lowered, so the program verifies from there on.

// CHECK: IR Dump After lower-to-stablehlo
// CHECK: func.func private @host.f0(tensor<9x9xf32>) -> tensor<9x9xf32>
// CHECK: func.func public @main
// CHECK: call @host.f0
// CHECK: iree.reflection
func.func public @main(%x: tensor<9x9xf32>) -> tensor<9x9xf32> {
  %0 = "gnomon.cholesky"(%x) : (tensor<9x9xf32>) -> tensor<9x9xf32>
  return %0 : tensor<9x9xf32>
}
