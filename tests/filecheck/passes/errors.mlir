// RUN: %gnomon-opt --pipeline=stablehlo --split-input-file --verify-diagnostics %s

// expected-error {{the call graph has a cycle: main -> main}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{gnomon.psum cannot be lowered}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.psum"(%x) {axes = ["i"]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error {{'gnomon.sin' op breaks its type rule: element type i128 is not one of the gnomon dialect}}
func.func @main(%x: tensor<7xi128>) -> tensor<7xi128> {
  %0 = "gnomon.sin"(%x) : (tensor<7xi128>) -> tensor<7xi128>
  return %0 : tensor<7xi128>
}
