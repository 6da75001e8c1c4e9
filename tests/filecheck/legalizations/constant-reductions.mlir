// RUN: %gnomon-opt --passes=constant-reductions %s | %filecheck %s

// A hidden zero is added to a reduced constant; an argument is reduced as it is.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.optimization_barrier
// CHECK: %[[X:.*]] = stablehlo.add
// CHECK: stablehlo.reduce(%[[X]]
// CHECK: stablehlo.reduce(%arg0
func.func @main(%a: tensor<9xf32>) -> (tensor<f32>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %c = stablehlo.constant dense<-1.0> : tensor<9xf32>
  %0 = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
