// RUN: %gnomon-opt --passes=functions-without-f64 --target=vulkan:portable %s | %filecheck %s

// A sine of f32 is a function of its own, without numbers of 64 bits.

// CHECK-NOT: f64

// CHECK: call @sin
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
