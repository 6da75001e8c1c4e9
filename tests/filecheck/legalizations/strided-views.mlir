// RUN: %gnomon-opt --passes=strided-views %s | %filecheck %s

// A slice with gaps that is reversed is stored; one without gaps is not.

// CHECK-LABEL: func.func @main
// CHECK: %[[V:.*]] = stablehlo.slice %{{.*}} [0:8:2]
// CHECK: %[[S:.*]] = stablehlo.optimization_barrier %[[V]]
// CHECK: stablehlo.reverse %[[S]]
// CHECK-NOT: optimization_barrier
func.func @main(%x: tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.slice %x [0:8:2] : (tensor<8xf32>) -> tensor<4xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<4xf32>
  %2 = stablehlo.slice %x [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  %3 = stablehlo.reverse %2, dims = [0] : tensor<4xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// A slice of a transposed array has gaps, because IREE moves the slice before the transpose.

// CHECK-LABEL: func.func @transposed
// CHECK: %[[P:.*]] = stablehlo.slice
// CHECK: %[[S:.*]] = stablehlo.optimization_barrier %[[P]]
// CHECK: stablehlo.reverse %[[S]]
func.func @transposed(%x: tensor<1x3x4xf32>) -> tensor<1x3x1xf32> {
  %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<1x3x4xf32>) -> tensor<4x3x1xf32>
  %1 = stablehlo.slice %0 [0:1, 0:3, 0:1] : (tensor<4x3x1xf32>) -> tensor<1x3x1xf32>
  %2 = stablehlo.reverse %1, dims = [1] : tensor<1x3x1xf32>
  return %2 : tensor<1x3x1xf32>
}
