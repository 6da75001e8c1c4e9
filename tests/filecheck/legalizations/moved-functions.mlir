// RUN: %gnomon-opt --passes=moved-functions %s | %filecheck %s

// A function is computed before its operand is rearranged, even if other ops read the rearranged
// operand.

// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = stablehlo.reshape %arg0
// CHECK: %[[N:.*]] = stablehlo.negate %arg0 : tensor<2xf32>
// CHECK: %[[S:.*]] = stablehlo.reshape %[[N]]
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [0, 1]
// CHECK: %[[C:.*]] = stablehlo.convert %arg0 : (tensor<2xf32>) -> tensor<2xi32>
// CHECK: %[[T:.*]] = stablehlo.reshape %[[C]] : (tensor<2xi32>) -> tensor<1x2xi32>
// CHECK: return %[[B]], %[[R]], %[[T]]
func.func @main(%a: tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<1x2xi32>) {
  %0 = stablehlo.reshape %a : (tensor<2xf32>) -> tensor<2x1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.negate %1 : tensor<2x3xf32>
  %3 = stablehlo.reshape %a : (tensor<2xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.convert %3 : (tensor<1x2xf32>) -> tensor<1x2xi32>
  return %2, %0, %4 : tensor<2x3xf32>, tensor<2x1xf32>, tensor<1x2xi32>
}
