// A row is added up in lanes, which are added at the end; a sum that is long enough to lose digits in
// f32 has lanes of f64. A sum over rows adds to the results.
// RUN: %gnomon compile --emit=loops %s | %filecheck %s

// CHECK-DAG: %[[LANES:.*]] = memref.alloca() : memref<16xf32>
// CHECK-DAG: %[[WIDE:.*]] = memref.alloca() : memref<16xf64>
// CHECK:     memref.load %[[LANES]]
// CHECK:     memref.store {{.*}}, %out0[
// CHECK:     arith.extf {{.*}} : f32 to f64
// CHECK:     memref.load %[[WIDE]]
// CHECK:     arith.truncf {{.*}} : f64 to f32
// CHECK:     memref.store {{.*}}, %out1[
// CHECK:     memref.load %out2[
// CHECK:     arith.addf
// CHECK:     memref.store {{.*}}, %out2[
func.func @main(%x: tensor<4x50xf32>, %y: tensor<2000xf32>) -> (tensor<4xf32>, tensor<f32>, tensor<50xf32>) {
  %0 = "gnomon.reduce_sum"(%x) {axes = array<i64: 1>} : (tensor<4x50xf32>) -> tensor<4xf32>
  %1 = "gnomon.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<2000xf32>) -> tensor<f32>
  %2 = "gnomon.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<4x50xf32>) -> tensor<50xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<f32>, tensor<50xf32>
}
