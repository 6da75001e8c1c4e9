// RUN: %gnomon-opt --passes=masks %s | %filecheck %s

// A bool that is converted to a float factor, even if it is broadcast first, becomes a select of 1 or
// 0. Other conversions stay.

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = stablehlo.select %arg1, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xf32>
// CHECK: stablehlo.multiply %arg0, %[[A]]
// CHECK: %[[B:.*]] = stablehlo.select %arg1, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xf16>
// CHECK: stablehlo.broadcast_in_dim %[[B]]
// CHECK: %[[C:.*]] = stablehlo.convert %arg1
// CHECK: stablehlo.add %arg0, %[[C]]
// CHECK: stablehlo.convert %arg1 : (tensor<3xi1>) -> tensor<3xi32>
func.func @main(%x: tensor<3xf32>, %m: tensor<3xi1>, %y: tensor<2x3xf16>, %i: tensor<3xi32>)
    -> (tensor<3xf32>, tensor<2x3xf16>, tensor<3xf32>, tensor<3xi32>) {
  %0 = stablehlo.convert %m : (tensor<3xi1>) -> tensor<3xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<3xf32>
  %2 = stablehlo.convert %m : (tensor<3xi1>) -> tensor<3xf16>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<3xf16>) -> tensor<2x3xf16>
  %4 = stablehlo.multiply %3, %y : tensor<2x3xf16>
  %5 = stablehlo.convert %m : (tensor<3xi1>) -> tensor<3xf32>
  %6 = stablehlo.add %x, %5 : tensor<3xf32>
  %7 = stablehlo.convert %m : (tensor<3xi1>) -> tensor<3xi32>
  %8 = stablehlo.multiply %7, %i : tensor<3xi32>
  return %1, %4, %6, %8 : tensor<3xf32>, tensor<2x3xf16>, tensor<3xf32>, tensor<3xi32>
}
