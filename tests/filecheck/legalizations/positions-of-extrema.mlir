// RUN: %gnomon-opt --passes=positions-of-extrema %s | %filecheck %s

// The extremum is taken first, and then the first position of an element that equals it or is nan.
// Positions of bools are left alone.

// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = "gnomon.reduce_max"(%arg0
// CHECK: %[[B:.*]] = "gnomon.broadcast_in_dim"(%[[M]]
// CHECK: %[[E:.*]] = "gnomon.eq"(%arg0, %[[B]]
// CHECK: %[[N:.*]] = "gnomon.ne"(%arg0, %arg0
// CHECK: %[[C:.*]] = "gnomon.or"(%[[E]], %[[N]]
// CHECK: %[[I:.*]] = "gnomon.iota"
// CHECK: %[[S:.*]] = "gnomon.select"(%[[C]], %[[I]]
// CHECK: "gnomon.reduce_min"(%[[S]]
// CHECK: "gnomon.argmin"(%arg1
func.func @main(%x: tensor<4x3xf32>, %b: tensor<4x3xi1>) -> (tensor<4xi32>, tensor<4xi32>) {
  %0 = "gnomon.argmax"(%x) {axis = 1 : i64, index_dtype = i32} : (tensor<4x3xf32>) -> tensor<4xi32>
  %1 = "gnomon.argmin"(%b) {axis = 1 : i64, index_dtype = i32} : (tensor<4x3xi1>) -> tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
