// RUN: %gnomon-opt --passes=fold-constants,canonicalize %s | %filecheck %s

// What is computed of small literals is a literal; what is large or known later stays.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<f32>) -> (tensor<1xf32>, tensor<f32>, tensor<5xf32>) {
  // CHECK: value = dense<-2.500000e-01> : tensor<1xf32>
  // CHECK-NOT: gnomon.div
  %one = "gnomon.constant"() {value = dense<1.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %four = "gnomon.constant"() {value = dense<4.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %minus = "gnomon.neg"(%one) : (tensor<f32>) -> tensor<f32>
  %part = "gnomon.div"(%minus, %four) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %row = "gnomon.reshape"(%part) {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  // CHECK: "gnomon.mul"(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %scaled = "gnomon.mul"(%x, %part) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: "gnomon.broadcast_in_dim"
  %many = "gnomon.broadcast_in_dim"(%part) {shape = array<i64: 5>, dims = array<i64>} : (tensor<f32>) -> tensor<5xf32>
  func.return %row, %scaled, %many : tensor<1xf32>, tensor<f32>, tensor<5xf32>
}
