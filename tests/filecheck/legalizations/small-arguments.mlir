// RUN: %gnomon-opt --passes=small-arguments %s | %filecheck %s

// log1p of f64 is a series for small arguments; that of f32 stays.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.log %
// CHECK: stablehlo.select
// CHECK: stablehlo.log_plus_one %{{.*}} : tensor<3xf32>
func.func @main(%x: tensor<3xf64>, %y: tensor<3xf32>) -> (tensor<3xf64>, tensor<3xf32>) {
  %0 = stablehlo.log_plus_one %x : tensor<3xf64>
  %1 = stablehlo.log_plus_one %y : tensor<3xf32>
  return %0, %1 : tensor<3xf64>, tensor<3xf32>
}
