// RUN: %gnomon-opt --passes=barriers-of-buffers %s | %filecheck %s

// A barrier whose value is returned goes; one whose value is computed with stays.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: gnomon.optimization_barrier
// CHECK-NOT: gnomon.optimization_barrier
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "gnomon.optimization_barrier"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "gnomon.optimization_barrier"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "gnomon.neg"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %2 : tensor<3xf32>, tensor<3xf32>
}
