// A product of matrices keeps four rows of sixteen columns in registers; the remaining two columns
// have vectors of their own width, and there are no remaining rows.
// RUN: %gnomon compile --emit=loops %s | %filecheck %s

// CHECK:           vector.load %in1[{{.*}}] : memref<90xf32>, vector<16xf32>
// CHECK-COUNT-4:   vector.broadcast {{.*}} : f32 to vector<16xf32>
// CHECK:           arith.mulf {{.*}} fastmath<contract> : vector<16xf32>
// CHECK:           arith.addf {{.*}} fastmath<contract> : vector<16xf32>
// CHECK:           vector.store {{.*}}, %out0[{{.*}}] : memref<144xf32>, vector<16xf32>
// CHECK:           vector.load %in1[{{.*}}] : memref<90xf32>, vector<2xf32>
// CHECK-COUNT-4:   vector.broadcast {{.*}} : f32 to vector<2xf32>
func.func @main(%x: tensor<8x5xf32>, %y: tensor<5x18xf32>) -> tensor<8x18xf32> {
  %0 = "gnomon.dot_general"(%x, %y) {dtype = f32, lhs_batch = array<i64>, lhs_contracting = array<i64: 1>, precision = "default", rhs_batch = array<i64>, rhs_contracting = array<i64: 0>} : (tensor<8x5xf32>, tensor<5x18xf32>) -> tensor<8x18xf32>
  return %0 : tensor<8x18xf32>
}
