// Elementwise operations and movements are evaluated where an element is needed: there is one loop.
// RUN: %gnomon compile --emit=loops %s | %filecheck %s

// CHECK:      func.func @main(%in0: memref<12xf32> {llvm.noalias}, %out0: memref<12xf32>
// CHECK:      scf.for %[[I:.*]] = {{.*}} {
// CHECK-NEXT:   scf.for %[[J:.*]] = {{.*}} {
// CHECK:          %[[X:.*]] = memref.load %in0[
// CHECK-NEXT:     %[[Y:.*]] = math.exp %[[X]] : f32
// CHECK-NEXT:     %[[Z:.*]] = arith.mulf %[[Y]], %[[Y]] : f32
// CHECK:          memref.store %[[Z]], %out0[
// CHECK-NEXT:   } {gnomon.independent}
// CHECK-NEXT: }
// CHECK-NOT:  scf.for
func.func @main(%x: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %0 = "gnomon.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = "gnomon.exp"(%0) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = "gnomon.mul"(%1, %1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}
