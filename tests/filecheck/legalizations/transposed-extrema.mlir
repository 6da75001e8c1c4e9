// RUN: %gnomon-opt --passes=transposed-extrema %s | %filecheck %s

// The positions of minima are stored before they are transposed, even if something is computed from
// them first. Results that are not transposed are not stored.

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]]:2 = stablehlo.reduce
// CHECK: %[[B:.*]] = stablehlo.optimization_barrier %[[A]]#1
// CHECK: %[[C:.*]] = stablehlo.negate %[[B]]
// CHECK: stablehlo.transpose %[[C]]
// CHECK-NOT: optimization_barrier
func.func @main(%x: tensor<2x4x3xi32>, %i: tensor<2x4x3xi32>)
    -> (tensor<4x2xi32>, tensor<2x4xi32>, tensor<2x4xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%x init: %zero), (%i init: %zero) across dimensions = [2]
      : (tensor<2x4x3xi32>, tensor<2x4x3xi32>, tensor<i32>, tensor<i32>)
        -> (tensor<2x4xi32>, tensor<2x4xi32>)
    reducer(%a: tensor<i32>, %c: tensor<i32>) (%b: tensor<i32>, %d: tensor<i32>) {
      %less = stablehlo.compare LT, %a, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %m = stablehlo.select %less, %a, %c : tensor<i1>, tensor<i32>
      %n = stablehlo.select %less, %b, %d : tensor<i1>, tensor<i32>
      stablehlo.return %m, %n : tensor<i32>, tensor<i32>
    }
  %1 = stablehlo.negate %0#1 : tensor<2x4xi32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x4xi32>) -> tensor<4x2xi32>
  %3 = stablehlo.abs %0#0 : tensor<2x4xi32>
  return %2, %3, %0#0 : tensor<4x2xi32>, tensor<2x4xi32>, tensor<2x4xi32>
}
