// RUN: %gnomon-opt --passes=lifted-elements %s | %filecheck %s

// The array gets the dimensions that the reshape of its element would add. A reshape to as many
// dimensions as the array has is left alone. Of two reshapes in sequence that add dimensions, the
// second may have fewer than the first.

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = stablehlo.reshape %arg0 : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK: %[[B:.*]] = stablehlo.slice %[[A]] [0:1, 1:2]
// CHECK: %[[C:.*]] = stablehlo.reshape %arg1 : (tensor<4x5xf32>) -> tensor<1x4x5xf32>
// CHECK: %[[D:.*]] = stablehlo.dynamic_slice %[[C]], %{{.*}}, %arg2, %arg2, sizes = [1, 1, 1]
// CHECK: %[[E:.*]] = stablehlo.reshape %{{.*}} : (tensor<1x1xf32>) -> tensor<1xf32>
// CHECK: return %[[B]], %[[D]], %[[E]]
func.func @main(%x: tensor<2xf32>, %y: tensor<4x5xf32>, %i: tensor<i32>)
    -> (tensor<1x1xf32>, tensor<1x1x1xf32>, tensor<1xf32>) {
  %0 = stablehlo.slice %x [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
  %2 = stablehlo.reshape %1 : (tensor<f32>) -> tensor<1x1xf32>
  %3 = stablehlo.dynamic_slice %y, %i, %i, sizes = [1, 1]
      : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
  %4 = stablehlo.reshape %3 : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
  %5 = stablehlo.reshape %3 : (tensor<1x1xf32>) -> tensor<1xf32>
  return %2, %4, %5 : tensor<1x1xf32>, tensor<1x1x1xf32>, tensor<1xf32>
}

// CHECK-LABEL: func.func @in_sequence
// CHECK: %[[F:.*]] = stablehlo.reshape %arg0 : (tensor<2xf32>) -> tensor<1x1x2xf32>
// CHECK: %[[G:.*]] = stablehlo.slice %[[F]] [0:1, 0:1, 1:2]
// CHECK: %[[H:.*]] = stablehlo.reshape %arg0 : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK: %[[I:.*]] = stablehlo.slice %[[H]] [0:1, 1:2]
// CHECK: return %[[G]], %[[I]]
func.func @in_sequence(%x: tensor<2xf32>) -> (tensor<1x1x1xf32>, tensor<1x1xf32>) {
  %0 = stablehlo.slice %x [1:2] : (tensor<2xf32>) -> tensor<1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<1x1x1xf32>
  %2 = stablehlo.reshape %1 : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
  return %1, %2 : tensor<1x1x1xf32>, tensor<1x1xf32>
}
