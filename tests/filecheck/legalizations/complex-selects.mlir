// RUN: %gnomon-opt --passes=complex-selects --target=vulkan %s | %filecheck %s
// RUN: %not %gnomon-opt --passes=complex-selects --target=cpu %s 2>&1 | %filecheck %s --check-prefix=CPU

// A choice between complex numbers is made part by part, on targets that have none.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: stablehlo.select {{.*}} tensor<3xf32>
// CHECK: stablehlo.complex
// CPU: there is no pass 'complex-selects' for the target cpu
func.func @main(%p: tensor<3xi1>, %a: tensor<3xcomplex<f32>>, %b: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
  %0 = stablehlo.select %p, %a, %b : tensor<3xi1>, tensor<3xcomplex<f32>>
  return %0 : tensor<3xcomplex<f32>>
}
