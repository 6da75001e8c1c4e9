// RUN: %gnomon-opt --passes=hoist-invariants,drop-unused-results,cse,canonicalize %s | %filecheck %s

func.func private @shout(%x: tensor<f32>) -> tensor<f32> {
  "gnomon.debug_callback"(%x) {callback = 0 : i64, ordered = false} : (tensor<f32>) -> ()
  return %x : tensor<f32>
}

// Both calls stay in the loop, although they are equal and unused, and depend on a constant only.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @shout
// CHECK: "gnomon.while"
// CHECK: call @shout
// CHECK: call @shout
func.func @main(%n: tensor<i32>, %k: tensor<f32>) -> tensor<i32> {
  %p = builtin.unrealized_conversion_cast %k, %n : tensor<f32>, tensor<i32> to tuple<tensor<f32>, tensor<i32>>
  %r = "gnomon.while"(%p) ({
  ^bb0(%i: tensor<i32>):
    %zero = "gnomon.constant"() {dtype = i32, value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %more = "gnomon.gt"(%i, %zero) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "gnomon.yield"(%more) : (tensor<i1>) -> ()
  }, {
  ^bb0(%c: tensor<f32>, %i: tensor<i32>):
    %a = func.call @shout(%c) : (tensor<f32>) -> tensor<f32>
    %b = func.call @shout(%c) : (tensor<f32>) -> tensor<f32>
    %one = "gnomon.constant"() {dtype = i32, value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %next = "gnomon.sub"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "gnomon.yield"(%next) : (tensor<i32>) -> ()
  }) {cond_consts = 0 : i64, body_consts = 1 : i64} : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>
  return %n : tensor<i32>
}
