// RUN: %gnomon-opt --passes=small-matrices %s | %filecheck %s

// A system of two unknowns is solved by elementwise ops, with the larger pivot. A matrix of five
// rows is left alone.

// CHECK-NOT: gnomon.solve
// CHECK: gnomon.gt
// CHECK: gnomon.div
// CHECK: gnomon.cholesky
func.func @main(%a: tensor<7x2x2xf32>, %b: tensor<7x2x1xf32>, %x: tensor<5x5xf32>)
    -> (tensor<7x2x1xf32>, tensor<5x5xf32>) {
  %0 = "gnomon.solve"(%a, %b) {transpose_a = false}
      : (tensor<7x2x2xf32>, tensor<7x2x1xf32>) -> tensor<7x2x1xf32>
  %1 = "gnomon.cholesky"(%x) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  return %0, %1 : tensor<7x2x1xf32>, tensor<5x5xf32>
}
