// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,canonicalize,cse %s | %filecheck %s

// The gradient of a checkpointed custom_vjp function of a custom_jvp function: rules and bodies are
// all in the text, and the recomputed values come after the barrier.

// CHECK-LABEL: func.func @main
// CHECK: gnomon.optimization_barrier
// CHECK: gnomon.sin
// CHECK: gnomon.cos
// CHECK: gnomon.mul
// CHECK: gnomon.mul
// CHECK-NOT: gnomon.checkpoint
// CHECK-NOT: gnomon.custom
module @lambda {
  func.func private @lambda(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = "gnomon.checkpoint"(%arg0) ({
    ^bb0(%arg1: tensor<f32>):
      %1 = "gnomon.custom_jvp"(%arg1) ({
        "gnomon.branch"() ({
        ^bb0(%arg2: tensor<f32>):
          %3 = "gnomon.sin"(%arg2) : (tensor<f32>) -> tensor<f32>
          "gnomon.yield"(%3) : (tensor<f32>) -> ()
        }) : () -> ()
        "gnomon.branch"() ({
        ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
          %3 = "gnomon.custom_jvp"(%arg2) ({
            "gnomon.branch"() ({
            ^bb0(%arg4: tensor<f32>):
              %6 = "gnomon.sin"(%arg4) : (tensor<f32>) -> tensor<f32>
              "gnomon.yield"(%6) : (tensor<f32>) -> ()
            }) : () -> ()
          }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
          %4 = "gnomon.cos"(%arg2) : (tensor<f32>) -> tensor<f32>
          %5 = "gnomon.mul"(%4, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          "gnomon.yield"(%3, %5) : (tensor<f32>, tensor<f32>) -> ()
        }) : () -> ()
      }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
      %2 = "gnomon.custom_vjp"(%1) ({
        "gnomon.branch"() ({
        ^bb0(%arg2: tensor<f32>):
          %3 = "gnomon.custom_jvp"(%arg2) ({
            "gnomon.branch"() ({
            ^bb0(%arg3: tensor<f32>):
              %5 = "gnomon.sin"(%arg3) : (tensor<f32>) -> tensor<f32>
              "gnomon.yield"(%5) : (tensor<f32>) -> ()
            }) : () -> ()
          }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
          %4 = "gnomon.mul"(%3, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          "gnomon.yield"(%4) : (tensor<f32>) -> ()
        }) : () -> ()
        "gnomon.branch"() ({
        ^bb0(%arg2: tensor<f32>):
          %3 = "gnomon.custom_vjp"(%arg2) ({
            "gnomon.branch"() ({
            ^bb0(%arg3: tensor<f32>):
              %4 = "gnomon.custom_jvp"(%arg3) ({
                "gnomon.branch"() ({
                ^bb0(%arg4: tensor<f32>):
                  %6 = "gnomon.sin"(%arg4) : (tensor<f32>) -> tensor<f32>
                  "gnomon.yield"(%6) : (tensor<f32>) -> ()
                }) : () -> ()
              }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
              %5 = "gnomon.mul"(%4, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "gnomon.yield"(%5) : (tensor<f32>) -> ()
            }) : () -> ()
          }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
          "gnomon.yield"(%3, %arg2) : (tensor<f32>, tensor<f32>) -> ()
        }) : () -> ()
        "gnomon.branch"() ({
        ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
          %3 = "gnomon.mul"(%arg3, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          "gnomon.yield"(%3) : (tensor<f32>) -> ()
        }) : () -> ()
      }) {consts = 0 : i64, failure = "", name = "lambda", wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
      "gnomon.yield"(%2) : (tensor<f32>) -> ()
    }) {differentiated = false, policy = "nothing_saveable", prevent_cse = true} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = "gnomon.constant"() {dtype = f32, value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1:2 = "gnomon.vjp"(%arg0, %0) {callee = @lambda, outputs = array<i64: 0>, wrt = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    return %1#1 : tensor<f32>
  }
}
