// RUN: %gnomon-opt --passes=drop-unused-results,canonicalize %s | %filecheck %s

// The second carry is not used, and the first does not depend on it: no exponential is computed.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   gnomon.exp
// CHECK:       "gnomon.scan"(%{{[^,]*}}) ({
// CHECK-NOT:   gnomon.exp
// CHECK:       carry = 1 : i64
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0:2 = "gnomon.scan"(%a, %b) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
    %2 = "gnomon.exp"(%y) : (tensor<f32>) -> tensor<f32>
    "gnomon.yield"(%1, %2) : (tensor<f32>, tensor<f32>) -> ()
  }) {consts = 0 : i64, carry = 2 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}

// Eigenvalues without vectors have an op of their own, and those of `svd` a parameter.

// CHECK-LABEL: func.func @values
// CHECK-NOT:   gnomon.eigh
// CHECK:       "gnomon.eigvalsh"(%{{.*}}) {lower = false} : (tensor<3x3xf32>) -> tensor<3xf32>
// CHECK:       "gnomon.svd"(%{{.*}}) {compute_uv = false, full_matrices = false}
// CHECK-SAME:    : (tensor<3x3xf32>) -> tensor<3xf32>
func.func @values(%a: tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %v, %w = "gnomon.eigh"(%a) {lower = false}
    : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)
  %factors = "gnomon.svd"(%a) {full_matrices = false, compute_uv = true}
    : (tensor<3x3xf32>) -> tuple<tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>>
  %s, %u, %vh = builtin.unrealized_conversion_cast %factors
    : tuple<tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>>
    to tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
  return %w, %s : tensor<3xf32>, tensor<3xf32>
}

// One of two kinds of vectors is used.

// CHECK-LABEL: func.func @vectors
// CHECK:       "gnomon.eigh"
// CHECK:       "gnomon.eig"(%{{.*}}) {compute_left = false, compute_right = true
func.func @vectors(%a: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xcomplex<f32>>) {
  %v, %w = "gnomon.eigh"(%a) {lower = true}
    : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)
  %all = "gnomon.eig"(%a)
    {compute_left = true, compute_right = true, enable_eigvec_derivs = false}
    : (tensor<3x3xf32>)
    -> tuple<tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>, tensor<3x3xcomplex<f32>>>
  %values, %left, %right = builtin.unrealized_conversion_cast %all
    : tuple<tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>, tensor<3x3xcomplex<f32>>>
    to tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>, tensor<3x3xcomplex<f32>>
  return %v, %right : tensor<3x3xf32>, tensor<3x3xcomplex<f32>>
}
