// RUN: %gnomon-opt --passes=spread-updates %s | %filecheck %s

// An updated array is stored before interior padding, even if other padding comes in between.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.dynamic_update_slice
// CHECK: %[[P:.*]] = stablehlo.pad
// CHECK: %[[S:.*]] = stablehlo.optimization_barrier %[[P]]
// CHECK: stablehlo.pad %[[S]]
func.func @main(%x: tensor<4xf32>, %u: tensor<1xf32>, %i: tensor<i32>, %z: tensor<f32>) -> tensor<11xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.pad %0, %z, low = [1], high = [1], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  %2 = stablehlo.pad %1, %z, low = [0], high = [0], interior = [1] : (tensor<6xf32>, tensor<f32>) -> tensor<11xf32>
  return %2 : tensor<11xf32>
}
