// RUN: %gnomon-opt --passes=small-matrices %s | %filecheck %s
// RUN: %gnomon-opt --passes=small-matrices --target=wasm32 %s | %filecheck %s --check-prefix=ALONE

// A system of two unknowns is solved by elementwise ops, with the larger pivot. A matrix of five
// rows is left to LAPACK, but written out for a target that has none.

// CHECK-NOT: gnomon.solve
// CHECK: gnomon.gt
// CHECK: gnomon.div
// CHECK: gnomon.cholesky
// ALONE: gnomon.div
// ALONE-NOT: gnomon.cholesky
// ALONE: gnomon.sqrt
func.func @main(%a: tensor<7x2x2xf32>, %b: tensor<7x2x1xf32>, %x: tensor<5x5xf32>)
    -> (tensor<7x2x1xf32>, tensor<5x5xf32>) {
  %0 = "gnomon.solve"(%a, %b) {transpose_a = false}
      : (tensor<7x2x2xf32>, tensor<7x2x1xf32>) -> tensor<7x2x1xf32>
  %1 = "gnomon.cholesky"(%x) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  return %0, %1 : tensor<7x2x1xf32>, tensor<5x5xf32>
}
