// RUN: %gnomon-opt --passes=complex-parts --target=cpu %s | %filecheck %s

// Complex values are pairs of real ones, also as carries of loops; results are joined at the end.

// CHECK-LABEL: func.func @main
// CHECK: "gnomon.real"(%arg0)
// CHECK: "gnomon.imag"(%arg0)
// CHECK: "gnomon.while"
// CHECK: ^bb0(%{{.*}}: tensor<i32>, %{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>):
// CHECK-COUNT-4: "gnomon.mul"({{.*}}) : (tensor<3xf32>, tensor<3xf32>)
// CHECK: "gnomon.complex"
// CHECK-NEXT: return
module {
  func.func @main(%z: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
    %zero = "gnomon.constant"() {dtype = i32, value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %p = builtin.unrealized_conversion_cast %zero, %z : tensor<i32>, tensor<3xcomplex<f32>> to tuple<tensor<i32>, tensor<3xcomplex<f32>>>
    %w = "gnomon.while"(%p) ({
    ^bb0(%i: tensor<i32>, %x: tensor<3xcomplex<f32>>):
      %n = "gnomon.constant"() {dtype = i32, value = dense<5> : tensor<i32>} : () -> tensor<i32>
      %t = "gnomon.lt"(%i, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "gnomon.yield"(%t) : (tensor<i1>) -> ()
    }, {
    ^bb0(%i: tensor<i32>, %x: tensor<3xcomplex<f32>>):
      %one = "gnomon.constant"() {dtype = i32, value = dense<1> : tensor<i32>} : () -> tensor<i32>
      %next = "gnomon.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %y = "gnomon.mul"(%x, %x) : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
      %q = builtin.unrealized_conversion_cast %next, %y : tensor<i32>, tensor<3xcomplex<f32>> to tuple<tensor<i32>, tensor<3xcomplex<f32>>>
      "gnomon.yield"(%q) : (tuple<tensor<i32>, tensor<3xcomplex<f32>>>) -> ()
    }) {body_consts = 0 : i64, cond_consts = 0 : i64} : (tuple<tensor<i32>, tensor<3xcomplex<f32>>>) -> tuple<tensor<i32>, tensor<3xcomplex<f32>>>
    %r:2 = builtin.unrealized_conversion_cast %w : tuple<tensor<i32>, tensor<3xcomplex<f32>>> to tensor<i32>, tensor<3xcomplex<f32>>
    return %r#1 : tensor<3xcomplex<f32>>
  }
}
