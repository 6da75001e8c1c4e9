// RUN: %gnomon-opt --passes=row-kernels --target=cpu %s | %filecheck %s

// A softmax, the sum of its rows' squares and a use of it by a product: one kernel with two results.

// CHECK-LABEL: func.func @softmax
// CHECK-NOT: stablehlo.reduce
// CHECK: "flow.dispatch"(%arg0)
// CHECK-SAME: @gnomon_rows_0::@gnomon_rows_0
// CHECK-NOT: stablehlo.reduce
// CHECK: stablehlo.dot_general
func.func @softmax(%x: tensor<256x64xf32>, %w: tensor<64x8xf32>)
    -> (tensor<256x8xf32>, tensor<256xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<256xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<256xf32>) -> tensor<256x64xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<256x64xf32>
  %3 = stablehlo.exponential %2 : tensor<256x64xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<256xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<256xf32>) -> tensor<256x64xf32>
  %6 = stablehlo.divide %3, %5 : tensor<256x64xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<256x64xf32>
  %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<256xf32>
  %9 = stablehlo.dot_general %6, %w, contracting_dims = [1] x [0]
      : (tensor<256x64xf32>, tensor<64x8xf32>) -> tensor<256x8xf32>
  return %9, %8 : tensor<256x8xf32>, tensor<256xf32>
}

// The product in the middle reads one kernel's result, and the other kernel reads the product's.

// CHECK-LABEL: func.func @apart
// CHECK: "flow.dispatch"
// CHECK: stablehlo.dot_general
// CHECK: "flow.dispatch"
// CHECK-NOT: stablehlo.divide
func.func @apart(%x: tensor<256x64xf32>, %w: tensor<64x64xf32>) -> tensor<256x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<256xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<256xf32>) -> tensor<256x64xf32>
  %2 = stablehlo.divide %x, %1 : tensor<256x64xf32>
  %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0]
      : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  %4 = stablehlo.add %2, %3 : tensor<256x64xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<256xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<256xf32>) -> tensor<256x64xf32>
  %7 = stablehlo.divide %4, %6 : tensor<256x64xf32>
  return %7 : tensor<256x64xf32>
}

// Short rows, columns and elementwise ops stay.

// CHECK-LABEL: func.func @others
// CHECK-NOT: flow.dispatch
// CHECK: stablehlo.reduce
// CHECK: stablehlo.reduce
// CHECK: stablehlo.sine
// CHECK: return
func.func @others(%x: tensor<8192x8xf32>, %y: tensor<256x64xf32>)
    -> (tensor<8192xf32>, tensor<64xf32>, tensor<256x64xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<8192x8xf32>, tensor<f32>) -> tensor<8192xf32>
  %1 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<256x64xf32>, tensor<f32>) -> tensor<64xf32>
  %2 = stablehlo.sine %y : tensor<256x64xf32>
  return %0, %1, %2 : tensor<8192xf32>, tensor<64xf32>, tensor<256x64xf32>
}
