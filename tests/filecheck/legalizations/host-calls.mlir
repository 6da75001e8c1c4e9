// RUN: %gnomon-opt --passes=host-calls %s | %filecheck %s
// RUN: %not %gnomon-opt --passes=host-calls --target=wasm32 %s 2>&1 | %filecheck %s --check-prefix=ALONE

// A factorization is left to Python, and refused on a target whose programs cannot call Python.

// CHECK: gnomon.host_call
// CHECK-NOT: gnomon.cholesky
// ALONE: gnomon.cholesky of (f32[3,3]) is not supported on target 'wasm32'
func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "gnomon.cholesky"(%x) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
