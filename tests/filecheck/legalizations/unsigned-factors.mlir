// RUN: %gnomon-opt --passes=unsigned-factors %s | %filecheck %s

// The converted factor of a product with a vector is stored.

// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = stablehlo.convert
// CHECK: %[[S:.*]] = stablehlo.optimization_barrier %[[C]]
// CHECK: stablehlo.dot_general %[[S]]
func.func @main(%a: tensor<3x4xui8>, %b: tensor<4xf32>) -> tensor<3xf32> {
  %0 = stablehlo.convert %a : (tensor<3x4xui8>) -> tensor<3x4xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
