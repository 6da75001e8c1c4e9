// RUN: %gnomon-opt --passes=inline,symbol-dce %s | %filecheck %s

// CHECK-NOT:   @helper
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  "gnomon.neg"
// CHECK-NEXT:  "gnomon.neg"
// CHECK-NEXT:  return
// CHECK-NOT:   @helper
func.func private @helper(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.neg"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = func.call @helper(%x) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @helper(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
