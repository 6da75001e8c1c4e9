// RUN: %gnomon-opt --pipeline=iree --target=vulkan:portable %s | %filecheck %s
// RUN: %gnomon-opt --pipeline=iree --print-ir-after=small-arguments %s 2>&1 | %filecheck %s --check-prefix=AFTER

// The result of the pipeline is the compiler's input, which names the device.

// CHECK: hal.device.targets
// CHECK: stablehlo.sqrt
// AFTER: IR Dump After small-arguments
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "gnomon.sqrt"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
