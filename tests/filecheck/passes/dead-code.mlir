// RUN: %gnomon-opt --passes=canonicalize,cse %s | %filecheck %s

// Ops are pure: upstream's passes drop unused ones and merge equal ones.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[SIN:.*]] = "gnomon.sin"
// CHECK-NEXT:  %[[OUT:.*]] = "gnomon.add"(%[[SIN]], %[[SIN]])
// CHECK-NEXT:  return %[[OUT]]
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "gnomon.sin"(%x) : (tensor<f32>) -> tensor<f32>
  %2 = "gnomon.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "gnomon.add"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
