// RUN: %gnomon-opt --passes=library-products --target=cpu %s | %filecheck %s

// A large product of f64 is a dispatch of the library's kernel, which reads a transposed operand
// without a copy. Small products, narrow ones and those of other dtypes stay.

// CHECK-LABEL: func.func @main
// CHECK: "flow.dispatch"(%{{[^ ]*}}, %arg1, %arg0,
// CHECK-SAME: @gnomon_products_f64::@products_f64
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.dot_general
func.func @main(%a: tensor<256x300xf64>, %b: tensor<256x400xf64>, %s: tensor<8x8xf64>,
                %v: tensor<300x1xf64>, %h: tensor<512x512xi32>)
    -> (tensor<400x300xf64>, tensor<8x8xf64>, tensor<256x1xf64>, tensor<512x512xi32>) {
  %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<256x400xf64>) -> tensor<400x256xf64>
  %0 = stablehlo.dot_general %t, %a, contracting_dims = [1] x [0]
      : (tensor<400x256xf64>, tensor<256x300xf64>) -> tensor<400x300xf64>
  %1 = stablehlo.dot_general %s, %s, contracting_dims = [1] x [0]
      : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %2 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
      : (tensor<256x300xf64>, tensor<300x1xf64>) -> tensor<256x1xf64>
  %3 = stablehlo.dot_general %h, %h, contracting_dims = [1] x [0]
      : (tensor<512x512xi32>, tensor<512x512xi32>) -> tensor<512x512xi32>
  return %0, %1, %2, %3
      : tensor<400x300xf64>, tensor<8x8xf64>, tensor<256x1xf64>, tensor<512x512xi32>
}

// The transpose of a matrix of windows is not stored either.

// CHECK-LABEL: func.func @weights
// CHECK: "flow.dispatch"(%{{[^ ]*}}, %arg0, %arg1,
// CHECK-SAME: @gnomon_products_transposed_windows_f32::@products_transposed_windows_f32
// CHECK-NOT: stablehlo.dot_general
// CHECK: stream.executable
// CHECK: gnomon_product_f64
func.func @weights(%x: tensor<8x33x32x16xf32>, %y: tensor<8x32x32x16xf32>) -> tensor<32x16xf32> {
  %0 = stablehlo.slice %x [0:8, 0:32, 0:32, 0:16]
      : (tensor<8x33x32x16xf32>) -> tensor<8x32x32x16xf32>
  %1 = stablehlo.slice %x [0:8, 1:33, 0:32, 0:16]
      : (tensor<8x33x32x16xf32>) -> tensor<8x32x32x16xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 3
      : (tensor<8x32x32x16xf32>, tensor<8x32x32x16xf32>) -> tensor<8x32x32x32xf32>
  %3 = stablehlo.dot_general %2, %y, contracting_dims = [0, 1, 2] x [0, 1, 2]
      : (tensor<8x32x32x32xf32>, tensor<8x32x32x16xf32>) -> tensor<32x16xf32>
  return %3 : tensor<32x16xf32>
}
