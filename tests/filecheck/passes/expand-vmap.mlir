// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,cse %s | %filecheck %s

// Unbatched values stay unbatched: the sine of %y is computed once, and broadcast to multiply %x.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<5x3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK:       %[[SIN:.*]] = "gnomon.sin"(%[[Y]]) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK:       %[[ROWS:.*]] = "gnomon.broadcast_in_dim"(%[[SIN]])
// CHECK-SAME:  tensor<5x3xf32>
// CHECK:       "gnomon.mul"(%[[X]], %[[ROWS]]) : (tensor<5x3xf32>, tensor<5x3xf32>)
func.func private @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.sin"(%y) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "gnomon.mul"(%x, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

func.func @main(%x: tensor<5x3xf32>, %y: tensor<3xf32>) -> tensor<5x3xf32> {
  %p = builtin.unrealized_conversion_cast %x, %y
    : tensor<5x3xf32>, tensor<3xf32> to tuple<tensor<5x3xf32>, tensor<3xf32>>
  %0 = "gnomon.vmap"(%p) {callee = @f, in_axes = array<i64: 0, -1>, out_axes = array<i64: 0>,
                          axis_size = 5 : i64, axis_name = ""}
    : (tuple<tensor<5x3xf32>, tensor<3xf32>>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
