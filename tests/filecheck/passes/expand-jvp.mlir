// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,cse %s | %filecheck %s

// Symbolic zeros: %y has no tangent, so the product has one term, and nothing is multiplied by zero.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>, %[[DX:.*]]: tensor<3xf32>)
// CHECK-NEXT:  %[[OUT:.*]] = "gnomon.mul"(%[[X]], %[[Y]])
// CHECK-NEXT:  %[[TANGENT:.*]] = "gnomon.mul"(%[[DX]], %[[Y]])
// CHECK-NEXT:  return %[[OUT]], %[[TANGENT]]
func.func private @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.mul"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>, %dx: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>) {
  %0:2 = "gnomon.jvp"(%x, %y, %dx) {callee = @f, wrt = array<i64: 0>}
    : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}
