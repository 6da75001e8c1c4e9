// RUN: %gnomon-opt --pipeline=stablehlo --split-input-file --verify-diagnostics %s

// expected-error {{the call graph has a cycle: main -> main}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{gnomon.psum cannot be lowered}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.psum"(%x) {axes = ["i"], groups = []} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{'gnomon.sin' op breaks its type rule: element type i128 is not one of the gnomon dialect}}
func.func @main(%x: tensor<7xi128>) -> tensor<7xi128> {
  %0 = "gnomon.sin"(%x) : (tensor<7xi128>) -> tensor<7xi128>
  return %0 : tensor<7xi128>
}

// -----

// expected-error {{result 0 may differ between the members of axis 'i', which its spec in out_specs does not mention}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i"], mesh_sizes = array<i64: 4>,
                               manual_axes = ["i"], in_specs = [[["i"]]], out_specs = [[]],
                               check_vma = true} : (tensor<8xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
