// RUN: %gnomon-opt --pipeline=stablehlo %s | %filecheck %s
// RUN: %gnomon-opt --pipeline=stablehlo --print-ir-after-all %s 2>&1 >/dev/null | %filecheck %s --check-prefix=DUMP

// The gradient of a square, mapped: vmap(grad(x * x)) is 2 x, from text to StableHLO.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   gnomon.
// CHECK:       stablehlo.multiply
// CHECK:       stablehlo.add
// CHECK:       return
// DUMP:        IR Dump After expand-transformations
// DUMP:        IR Dump After inline
// DUMP:        IR Dump After lower-to-stablehlo
func.func private @square(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func private @gradient(%x: tensor<f32>, %one: tensor<f32>) -> tensor<f32> {
  %0:2 = "gnomon.vjp"(%x, %one) {callee = @square, wrt = array<i64: 0>, outputs = array<i64: 0>}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

func.func @main(%x: tensor<4xf32>, %ones: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "gnomon.vmap"(%x, %ones) {callee = @gradient, in_axes = array<i64: 0, 0>,
                                 out_axes = array<i64: 0>, axis_size = 4 : i64, axis_name = ""}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
