// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,cse %s | %filecheck %s

// The primal is computed once, and the cotangent is pulled through the product rule.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NOT:   gnomon.vjp
// CHECK:       %[[SIN:.*]] = "gnomon.sin"(%[[X]])
// CHECK:       %[[COS:.*]] = "gnomon.cos"(%[[X]])
// CHECK:       %[[OUT:.*]] = "gnomon.mul"(%[[SIN]], %[[X]])
// CHECK-NOT:   gnomon.sin
// CHECK:       return %[[OUT]], %{{.*}} : tensor<f32>, tensor<f32>
func.func private @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "gnomon.mul"(%0, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

func.func @main(%x: tensor<f32>, %ct: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = "gnomon.vjp"(%x, %ct) {callee = @f, wrt = array<i64: 0>, outputs = array<i64: 0>}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
