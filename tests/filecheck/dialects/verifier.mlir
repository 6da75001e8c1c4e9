// RUN: %gnomon-opt --split-input-file --verify-diagnostics %s

// Each message names the op and the rule that it breaks.

// expected-error {{'gnomon.sin' op breaks its type rule: gnomon.sin: the type rule gives (f32[4]), the op is declared with (f32[3])}}
func.func @f(%x: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "gnomon.sin"(%x) : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error {{gnomon.add takes operands of one shape and dtype, got f32[4], f32[3]}}
func.func @f(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "gnomon.add"(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error {{gnomon.sin takes}}
func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "gnomon.sin"(%x) : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// expected-error {{axes}}
func.func @f(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = "gnomon.reduce_sum"(%x) : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{attribute 'axes' must be of kind array<i64>}}
func.func @f(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = "gnomon.reduce_sum"(%x) {axes = "all"} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{no function @nowhere in the module}}
func.func @f(%x: tensor<f32>, %dx: tensor<f32>) -> tensor<f32> {
  %0:2 = "gnomon.jvp"(%x, %dx) {callee = @nowhere, wrt = array<i64: 0>}
    : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

// -----

// expected-error {{i32[] at position 0 has no tangent type}}
func.func private @g(%x: tensor<i32>) -> tensor<i32> {
  return %x : tensor<i32>
}
func.func @f(%x: tensor<i32>, %dx: tensor<i32>) -> tensor<i32> {
  %0 = "gnomon.jvp"(%x, %dx) {callee = @g, wrt = array<i64: 0>}
    : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// expected-error {{['j'] are not manual axes ['i']}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i", "j"], mesh_sizes = array<i64: 4, 2>,
                               manual_axes = ["i"], in_specs = [[["j"]]], out_specs = [[]],
                               check_vma = false} : (tensor<8xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error {{repeats an axis name}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i", "j"], mesh_sizes = array<i64: 4, 2>,
                               manual_axes = ["i"], in_specs = [[["i", "i"]]], out_specs = [[]],
                               check_vma = false} : (tensor<8xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error {{the callee takes (f32[8]), got (f32[6])}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<6xf32>) -> tensor<2xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i", "j"], mesh_sizes = array<i64: 4, 2>,
                               manual_axes = ["i"], in_specs = [[["i"]]], out_specs = [[]],
                               check_vma = false} : (tensor<6xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error {{2 in_specs and 1 out_specs for a function of 1 arguments}}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> {
  %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i", "j"], mesh_sizes = array<i64: 4, 2>,
                               manual_axes = ["i"], in_specs = [[], []], out_specs = [[]],
                               check_vma = false} : (tensor<8xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// expected-error {{the groups ((0, 1), (1, 2)) do not cover the members once each}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "gnomon.psum"(%x) {axes = ["i"], groups = [array<i64: 0, 1>, array<i64: 1, 2>]}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
