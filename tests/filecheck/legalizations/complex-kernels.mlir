// RUN: %gnomon-opt --passes=complex-kernels --target=cpu %s | %filecheck %s

// A kernel reads both parts of a large array, another one joins two parts; both are told the size.
// A small array stays, and so does one whose imaginary part is the same for all elements.

// CHECK-LABEL: func.func @main
// CHECK: "flow.dispatch"(%{{[^ ]*}}, %arg0, %{{[^ ]*}})
// CHECK-SAME: @gnomon_real_imag_f32::@real_imag_f32
// CHECK-SAME: (index, tensor<100x100xcomplex<f32>>, index) -> (tensor<100x100xf32>, tensor<100x100xf32>)
// CHECK: "flow.dispatch"
// CHECK-SAME: @gnomon_complex_f32::@complex_f32
// CHECK: stablehlo.real %arg1
// CHECK: stablehlo.complex
// CHECK-NOT: stablehlo.imag
// CHECK: stream.executable
// CHECK: vector.interleave
// CHECK: stream.executable
// CHECK: vector.deinterleave
func.func @main(%x: tensor<100x100xcomplex<f32>>, %y: tensor<8xcomplex<f32>>)
    -> (tensor<100x100xcomplex<f32>>, tensor<8xf32>, tensor<100x100xcomplex<f32>>) {
  %real = stablehlo.real %x : (tensor<100x100xcomplex<f32>>) -> tensor<100x100xf32>
  %imag = stablehlo.imag %x : (tensor<100x100xcomplex<f32>>) -> tensor<100x100xf32>
  %0 = stablehlo.complex %imag, %real : tensor<100x100xcomplex<f32>>
  %1 = stablehlo.real %y : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<100x100xf32>
  %2 = stablehlo.complex %real, %zero : tensor<100x100xcomplex<f32>>
  return %0, %1, %2
      : tensor<100x100xcomplex<f32>>, tensor<8xf32>, tensor<100x100xcomplex<f32>>
}
