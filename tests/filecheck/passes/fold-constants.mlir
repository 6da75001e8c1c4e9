// RUN: %gnomon-opt --passes=fold-constants,canonicalize %s | %filecheck %s

// Ops on small literals become literals; large results, and those that depend on arguments, stay.

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

// Reductions of broadcast literals become literals, too.

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<3x7xf32>) -> (tensor<f32>, tensor<3xf32>, tensor<i32>, tensor<5xf32>, tensor<f32>) {
  // CHECK-DAG: value = dense<-4.200000e+01> : tensor<f32>
  // CHECK-DAG: value = dense<1.280000e+02> : tensor<3xf32>
  // CHECK-DAG: value = dense<1000> : tensor<i32>
  %two = "gnomon.constant"() {value = dense<2.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %many = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 3, 7>, dims = array<i64>} : (tensor<f32>) -> tensor<3x7xf32>
  %minus = "gnomon.neg"(%many) : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %sum = "gnomon.reduce_sum"(%minus) {axes = array<i64: 0, 1>} : (tensor<3x7xf32>) -> tensor<f32>
  %prod = "gnomon.reduce_prod"(%many) {axes = array<i64: 1>} : (tensor<3x7xf32>) -> tensor<3xf32>
  %true = "gnomon.constant"() {value = dense<true> : tensor<i1>, dtype = i1} : () -> tensor<i1>
  %trues = "gnomon.broadcast_in_dim"(%true) {shape = array<i64: 1000>, dims = array<i64>} : (tensor<i1>) -> tensor<1000xi1>
  %ones = "gnomon.convert"(%trues) {dtype = i32} : (tensor<1000xi1>) -> tensor<1000xi32>
  %count = "gnomon.reduce_sum"(%ones) {axes = array<i64: 0>} : (tensor<1000xi32>) -> tensor<i32>
  // Large results stay, and so do reductions of values that depend on arguments.
  // CHECK: "gnomon.reduce_sum"(%{{.*}}) {{.*}} -> tensor<5xf32>
  %wide = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 5, 7>, dims = array<i64>} : (tensor<f32>) -> tensor<5x7xf32>
  %rows = "gnomon.reduce_sum"(%wide) {axes = array<i64: 1>} : (tensor<5x7xf32>) -> tensor<5xf32>
  %product = "gnomon.mul"(%many, %x) : (tensor<3x7xf32>, tensor<3x7xf32>) -> tensor<3x7xf32>
  // CHECK: "gnomon.reduce_sum"(%{{.*}}) {{.*}} -> tensor<f32>
  %total = "gnomon.reduce_sum"(%product) {axes = array<i64: 0, 1>} : (tensor<3x7xf32>) -> tensor<f32>
  func.return %sum, %prod, %count, %rows, %total : tensor<f32>, tensor<3xf32>, tensor<i32>, tensor<5xf32>, tensor<f32>
}

// A view of a broadcast literal becomes a splat.

// CHECK-LABEL: func.func @views
// CHECK-NOT: gnomon.rev
// CHECK-NOT: gnomon.slice
// CHECK-NOT: gnomon.transpose
// CHECK-DAG: dense<2.000000e+00> : tensor<2x3xf32>
// CHECK-DAG: dense<2.000000e+00> : tensor<5x3xf32>
// CHECK-DAG: dense<2.000000e+00> : tensor<1x2xf32>
func.func @views() -> (tensor<2x3xf32>, tensor<5x3xf32>, tensor<1x2xf32>) {
  %two = "gnomon.constant"() {value = dense<2.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %many = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 3, 5>, dims = array<i64>} : (tensor<f32>) -> tensor<3x5xf32>
  %turned = "gnomon.rev"(%many) {dims = array<i64: 0>} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %part = "gnomon.slice"(%turned) {start = array<i64: 0, 0>, limit = array<i64: 3, 5>, strides = array<i64: 2, 2>} : (tensor<3x5xf32>) -> tensor<2x3xf32>
  %transposed = "gnomon.transpose"(%turned) {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %small = "gnomon.slice"(%many) {start = array<i64: 1, 1>, limit = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<3x5xf32>) -> tensor<1x2xf32>
  func.return %part, %transposed, %small : tensor<2x3xf32>, tensor<5x3xf32>, tensor<1x2xf32>
}

// A select whose predicate is known to be all true or all false is replaced by its choice.

// CHECK-LABEL: func.func @selects
// CHECK-SAME: (%[[X:.*]]: tensor<7xf32>, %[[Y:.*]]: tensor<7xf32>, %[[P:.*]]: tensor<7xi1>, %[[Z:.*]]: tensor<2xf32>)
func.func @selects(%x: tensor<7xf32>, %y: tensor<7xf32>, %p: tensor<7xi1>, %z: tensor<2xf32>) -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<2xf32>) {
  %no = "gnomon.constant"() {value = dense<false> : tensor<i1>, dtype = i1} : () -> tensor<i1>
  %yes = "gnomon.constant"() {value = dense<true> : tensor<1xi1>, dtype = i1} : () -> tensor<1xi1>
  %all = "gnomon.broadcast_in_dim"(%yes) {shape = array<i64: 7>, dims = array<i64: 0>} : (tensor<1xi1>) -> tensor<7xi1>
  %mixed = "gnomon.constant"() {value = dense<[true, false]> : tensor<2xi1>, dtype = i1} : () -> tensor<2xi1>
  // CHECK: %[[KEPT:.*]] = "gnomon.select"(%[[P]], %[[X]], %[[Y]])
  // CHECK: %[[MIXED:.*]] = "gnomon.select"(%{{.*}}, %[[Z]], %[[Z]])
  %first = "gnomon.select"(%all, %x, %y) : (tensor<7xi1>, tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %second = "gnomon.select"(%no, %x, %y) : (tensor<i1>, tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %third = "gnomon.select"(%p, %x, %y) : (tensor<7xi1>, tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %fourth = "gnomon.select"(%mixed, %z, %z) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: return %[[X]], %[[Y]], %[[KEPT]], %[[MIXED]]
  func.return %first, %second, %third, %fourth : tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<2xf32>
}

// Constant operands of a switch are known in its branches.

// CHECK-LABEL: func.func @branches
// CHECK-NOT: gnomon.rev
// CHECK-NOT: gnomon.slice
// CHECK-COUNT-2: "gnomon.yield"
// CHECK: return
func.func @branches(%i: tensor<i32>, %x: tensor<6xf32>) -> tensor<6xf32> {
  %two = "gnomon.constant"() {value = dense<2.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %many = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 11>, dims = array<i64>} : (tensor<f32>) -> tensor<11xf32>
  %operands = builtin.unrealized_conversion_cast %i, %many, %x : tensor<i32>, tensor<11xf32>, tensor<6xf32> to tuple<tensor<i32>, tensor<11xf32>, tensor<6xf32>>
  %chosen = "gnomon.switch"(%operands) ({
    "gnomon.branch"() ({
    ^bb0(%a: tensor<11xf32>, %y: tensor<6xf32>):
      "gnomon.yield"(%y) : (tensor<6xf32>) -> ()
    }) : () -> ()
    "gnomon.branch"() ({
    ^bb0(%a: tensor<11xf32>, %y: tensor<6xf32>):
      %turned = "gnomon.rev"(%a) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
      %part = "gnomon.slice"(%turned) {start = array<i64: 0>, limit = array<i64: 11>, strides = array<i64: 2>} : (tensor<11xf32>) -> tensor<6xf32>
      %sum = "gnomon.add"(%part, %y) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      "gnomon.yield"(%sum) : (tensor<6xf32>) -> ()
    }) : () -> ()
  }) : (tuple<tensor<i32>, tensor<11xf32>, tensor<6xf32>>) -> tensor<6xf32>
  func.return %chosen : tensor<6xf32>
}

// Constant operands that a loop does not change are known in its bodies: its constants, and carries
// returned unchanged. So is a slice of a splat that a scan iterates over.

// CHECK-LABEL: func.func @loops
// CHECK: "gnomon.while"
// CHECK-NOT: gnomon.rev
// CHECK-NOT: gnomon.neg
// CHECK: dense<-3.000000e+00> : tensor<f32>
// CHECK: "gnomon.yield"
// CHECK-NOT: gnomon.rev
// CHECK: dense<2.000000e+00> : tensor<11xf32>
// The carry that changes is not known.
// CHECK: "gnomon.rev"
// CHECK-NOT: gnomon.rev
// CHECK: "gnomon.yield"
func.func @loops(%x: tensor<f32>) -> (tensor<11xf32>, tensor<11xf32>) {
  %two = "gnomon.constant"() {value = dense<2.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %three = "gnomon.constant"() {value = dense<3.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %many = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 11>, dims = array<i64>} : (tensor<f32>) -> tensor<11xf32>
  %operands = builtin.unrealized_conversion_cast %three, %many, %many, %many : tensor<f32>, tensor<11xf32>, tensor<11xf32>, tensor<11xf32> to tuple<tensor<f32>, tensor<11xf32>, tensor<11xf32>, tensor<11xf32>>
  %packed = "gnomon.while"(%operands) ({
  ^bb0(%bound: tensor<f32>, %changes: tensor<11xf32>, %stays: tensor<11xf32>):
    %minus = "gnomon.neg"(%bound) : (tensor<f32>) -> tensor<f32>
    %turned = "gnomon.rev"(%stays) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
    %sum = "gnomon.reduce_sum"(%changes) {axes = array<i64: 0>} : (tensor<11xf32>) -> tensor<f32>
    %first = "gnomon.slice"(%turned) {start = array<i64: 0>, limit = array<i64: 1>, strides = array<i64: 1>} : (tensor<11xf32>) -> tensor<1xf32>
    %one = "gnomon.reshape"(%first) {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>
    %total = "gnomon.add"(%sum, %one) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %less = "gnomon.lt"(%total, %minus) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "gnomon.yield"(%less) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<11xf32>, %changes: tensor<11xf32>, %stays: tensor<11xf32>):
    %turned = "gnomon.rev"(%a) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
    %again = "gnomon.rev"(%changes) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
    %sum = "gnomon.add"(%turned, %again) : (tensor<11xf32>, tensor<11xf32>) -> tensor<11xf32>
    %both = builtin.unrealized_conversion_cast %sum, %stays : tensor<11xf32>, tensor<11xf32> to tuple<tensor<11xf32>, tensor<11xf32>>
    "gnomon.yield"(%both) : (tuple<tensor<11xf32>, tensor<11xf32>>) -> ()
  }) {cond_consts = 1 : i64, body_consts = 1 : i64} : (tuple<tensor<f32>, tensor<11xf32>, tensor<11xf32>, tensor<11xf32>>) -> tuple<tensor<11xf32>, tensor<11xf32>>
  %last:2 = builtin.unrealized_conversion_cast %packed : tuple<tensor<11xf32>, tensor<11xf32>> to tensor<11xf32>, tensor<11xf32>
  func.return %last#0, %last#1 : tensor<11xf32>, tensor<11xf32>
}

// CHECK-LABEL: func.func @scans
// CHECK: "gnomon.scan"
// CHECK: "gnomon.rev"
// CHECK-NOT: gnomon.rev
// CHECK-NOT: gnomon.slice
// CHECK: "gnomon.yield"
func.func @scans(%x: tensor<11xf32>, %ys: tensor<4x11xf32>) -> tensor<11xf32> {
  %two = "gnomon.constant"() {value = dense<2.0> : tensor<f32>, dtype = f32} : () -> tensor<f32>
  %many = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 11>, dims = array<i64>} : (tensor<f32>) -> tensor<11xf32>
  %rows = "gnomon.broadcast_in_dim"(%two) {shape = array<i64: 4, 22>, dims = array<i64>} : (tensor<f32>) -> tensor<4x22xf32>
  %operands = builtin.unrealized_conversion_cast %many, %x, %rows, %ys : tensor<11xf32>, tensor<11xf32>, tensor<4x22xf32>, tensor<4x11xf32> to tuple<tensor<11xf32>, tensor<11xf32>, tensor<4x22xf32>, tensor<4x11xf32>>
  %last = "gnomon.scan"(%operands) ({
  ^bb0(%a: tensor<11xf32>, %c: tensor<11xf32>, %row: tensor<22xf32>, %y: tensor<11xf32>):
    %changing = "gnomon.rev"(%y) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
    %turned = "gnomon.rev"(%a) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
    %part = "gnomon.slice"(%row) {start = array<i64: 0>, limit = array<i64: 22>, strides = array<i64: 2>} : (tensor<22xf32>) -> tensor<11xf32>
    %some = "gnomon.add"(%turned, %part) : (tensor<11xf32>, tensor<11xf32>) -> tensor<11xf32>
    %more = "gnomon.add"(%some, %changing) : (tensor<11xf32>, tensor<11xf32>) -> tensor<11xf32>
    %sum = "gnomon.add"(%more, %c) : (tensor<11xf32>, tensor<11xf32>) -> tensor<11xf32>
    "gnomon.yield"(%sum) : (tensor<11xf32>) -> ()
  }) {consts = 1 : i64, carry = 1 : i64, length = 4 : i64, reverse = false, unroll = 1 : i64} : (tuple<tensor<11xf32>, tensor<11xf32>, tensor<4x22xf32>, tensor<4x11xf32>>) -> tensor<11xf32>
  func.return %last : tensor<11xf32>
}

// A view of a large literal whose elements are equal becomes a splat.

// CHECK-LABEL: func.func @large_literals
// CHECK-NOT: gnomon.rev
// CHECK-NOT: gnomon.slice
// CHECK: return
func.func @large_literals() -> tensor<6xf32> {
  %many = "gnomon.constant"() {value = dense<2.0> : tensor<11xf32>, dtype = f32} : () -> tensor<11xf32>
  %turned = "gnomon.rev"(%many) {dims = array<i64: 0>} : (tensor<11xf32>) -> tensor<11xf32>
  %part = "gnomon.slice"(%turned) {start = array<i64: 0>, limit = array<i64: 11>, strides = array<i64: 2>} : (tensor<11xf32>) -> tensor<6xf32>
  func.return %part : tensor<6xf32>
}

// A ramp along a dimension of size 1 is zero everywhere.

// CHECK-LABEL: func.func @ramps
// CHECK-DAG: dense<0.000000e+00> : tensor<1x5x4xf32>
// CHECK-DAG: dense<0> : tensor<1xi32>
// CHECK-NOT: gnomon.slice
// CHECK: "gnomon.iota"() {{.*}} -> tensor<5x5xf32>
func.func @ramps() -> (tensor<1x5x4xf32>, tensor<1xi32>, tensor<5x5xf32>) {
  %zeros = "gnomon.iota"() {dtype = f32, shape = array<i64: 1, 5, 5>, dimension = 0 : i64} : () -> tensor<1x5x5xf32>
  %part = "gnomon.slice"(%zeros) {start = array<i64: 0, 0, 1>, limit = array<i64: 1, 5, 5>, strides = array<i64: 1, 1, 1>} : (tensor<1x5x5xf32>) -> tensor<1x5x4xf32>
  %zero = "gnomon.iota"() {dtype = i32, shape = array<i64: 1>, dimension = 0 : i64} : () -> tensor<1xi32>
  %ramp = "gnomon.iota"() {dtype = f32, shape = array<i64: 5, 5>, dimension = 1 : i64} : () -> tensor<5x5xf32>
  func.return %part, %zero, %ramp : tensor<1x5x4xf32>, tensor<1xi32>, tensor<5x5xf32>
}
