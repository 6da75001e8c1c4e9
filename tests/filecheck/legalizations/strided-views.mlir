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

// A part of concatenated or padded slices may be a slice with gaps again.

// CHECK-LABEL: func.func @joined
// CHECK: stablehlo.concatenate
// CHECK: %[[C:.*]] = stablehlo.slice %{{.*}} [4:8]
// CHECK: %[[S:.*]] = stablehlo.optimization_barrier %[[C]]
// CHECK: stablehlo.reverse %[[S]]
// CHECK: stablehlo.pad
// CHECK: %[[P:.*]] = stablehlo.slice %{{.*}} [0:4]
// CHECK: %[[T:.*]] = stablehlo.optimization_barrier %[[P]]
// CHECK: stablehlo.reverse %[[T]]
func.func @joined(%x: tensor<8xf32>, %zero: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.slice %x [0:8:2] : (tensor<8xf32>) -> tensor<4xf32>
  %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %2 = stablehlo.slice %1 [4:8] : (tensor<8xf32>) -> tensor<4xf32>
  %3 = stablehlo.reverse %2, dims = [0] : tensor<4xf32>
  %4 = stablehlo.pad %0, %zero, low = [0], high = [1], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  %5 = stablehlo.slice %4 [0:4] : (tensor<5xf32>) -> tensor<4xf32>
  %6 = stablehlo.reverse %5, dims = [0] : tensor<4xf32>
  return %3, %6 : tensor<4xf32>, tensor<4xf32>
}

// Without a slice, the joined array is stored.

// CHECK-LABEL: func.func @whole
// CHECK-NOT: optimization_barrier
func.func @whole(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.slice %x [0:8:2] : (tensor<8xf32>) -> tensor<4xf32>
  %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<8xf32>
  return %2 : tensor<8xf32>
}
