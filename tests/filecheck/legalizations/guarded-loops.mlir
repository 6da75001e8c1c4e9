// RUN: %gnomon-opt --passes=guarded-loops %s | %filecheck %s

// At the end of the body, the loop's own condition selects each carry.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
// CHECK: do {
// CHECK: %[[NEW:.*]] = stablehlo.add
// CHECK: stablehlo.compare
// CHECK: stablehlo.select %{{.*}}, %[[NEW]]
func.func @main(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.while(%s = %x) : tensor<f32>
   cond {
    %c = stablehlo.compare LT, %s, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = stablehlo.add %s, %s : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }
  return %0 : tensor<f32>
}
