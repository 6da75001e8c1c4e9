// RUN: %gnomon-opt --passes=expand-transformations,inline,symbol-dce,canonicalize,cse,lower-to-stablehlo,simplify-lowered --split-input-file %s | %filecheck %s

// A program with a mesh: an attribute says how an argument is split, and a custom call how a result
// is split. The function of the shard_map is called between two custom calls, which convert whole
// values to shards and back. Its collectives act on groups of partitions. The cast to a varying
// value disappears.

// CHECK:       module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2, \22y\22=2]>}"}, mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<4x6xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {}]>"}}, %[[Y:.*]]: tensor<3xf32>
// CHECK:       %[[SHARDS:.*]]:2 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%[[X]], %[[Y]])
// CHECK-SAME:  xla.sdy.in_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {\22y\22}]>, <@mesh, [{}]>]>", xla.sdy.manual_axes = "#sdy<manual_axes{\22x\22, \22y\22}>"
// CHECK-SAME:  -> (tensor<2x3xf32>, tensor<3xf32>)
// CHECK:       %[[LOCAL:.*]]:2 = call @xla.sdy.manual_computation_body(%[[SHARDS]]#0, %[[SHARDS]]#1) {mhlo.frontend_attributes = {inlineable = "false"}}
// CHECK:       %[[WHOLE:.*]]:2 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%[[LOCAL]]#0, %[[LOCAL]]#1)
// CHECK-SAME:  -> (tensor<4x6xf32>, tensor<6xf32>)
// CHECK:       %[[SPLIT:.*]] = stablehlo.custom_call @xla.sdy.FuncResultSharding(%[[WHOLE]]#0)
// CHECK-SAME:  xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {\22y\22}]>]>"
// CHECK:       return %[[SPLIT]], %[[WHOLE]]#1
// CHECK:       func.func private @xla.sdy.manual_computation_body(%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<3xf32>)
// CHECK:       "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}>
// CHECK:       stablehlo.add
// CHECK:       stablehlo.broadcast_in_dim %[[B]]
// CHECK:       stablehlo.multiply %[[A]]
module attributes {gnomon.mesh = {axes = ["x", "y"], sizes = array<i64: 2, 2>,
                                  devices = array<i64: 0, 1, 2, 3>}} {
  func.func private @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>)
      -> (tensor<2x3xf32>, tensor<3xf32>) {
    %s = "gnomon.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
    %t = "gnomon.psum_invariant"(%s) {axes = ["x"]} : (tensor<3xf32>) -> tensor<3xf32>
    %z = "gnomon.pvary"(%y) {axes = ["x", "y"]} : (tensor<3xf32>) -> tensor<3xf32>
    %w = "gnomon.broadcast_in_dim"(%z) {dims = array<i64: 1>, shape = array<i64: 2, 3>}
      : (tensor<3xf32>) -> tensor<2x3xf32>
    %u = "gnomon.mul"(%x, %w) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %u, %t : tensor<2x3xf32>, tensor<3xf32>
  }
  func.func @main(%x: tensor<4x6xf32> {gnomon.split = ["x", ""]}, %y: tensor<3xf32>)
      -> (tensor<4x6xf32> {gnomon.split = ["x", "y"]}, tensor<6xf32>) {
    %p = builtin.unrealized_conversion_cast %x, %y
      : tensor<4x6xf32>, tensor<3xf32> to tuple<tensor<4x6xf32>, tensor<3xf32>>
    %q = "gnomon.shard_map"(%p) {callee = @f, mesh_axes = ["x", "y"],
                                 mesh_sizes = array<i64: 2, 2>, manual_axes = ["x", "y"],
                                 in_specs = [[["x"], ["y"]], []],
                                 out_specs = [[["x"], ["y"]], [["y"]]], check_vma = true}
      : (tuple<tensor<4x6xf32>, tensor<3xf32>>) -> tuple<tensor<4x6xf32>, tensor<6xf32>>
    %r:2 = builtin.unrealized_conversion_cast %q
      : tuple<tensor<4x6xf32>, tensor<6xf32>> to tensor<4x6xf32>, tensor<6xf32>
    return %r#0, %r#1 : tensor<4x6xf32>, tensor<6xf32>
  }
}

// -----

// Positions, movements of data, and groups of members. Partitions are numbered in row-major order.

// CHECK-LABEL: func.func @main() -> tensor<6xi32>
// CHECK:       func.func private @xla.sdy.manual_computation_body
// CHECK:       %[[ID:.*]] = stablehlo.partition_id : tensor<ui32>
// CHECK:       %[[OUTER:.*]] = stablehlo.divide %[[ID]]
// CHECK:       stablehlo.remainder %[[OUTER]]
// CHECK:       "stablehlo.collective_permute"(%{{.*}}) <{channel_handle = {{.*}}, source_target_pairs = dense<{{\[\[}}0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>}>
// CHECK:       "stablehlo.all_reduce"
// CHECK-SAME:  replica_groups = dense<{{\[\[}}0, 2], [1, -1], [3, 5], [4, -1]]> : tensor<4x2xi64>
// CHECK:       "stablehlo.all_gather"(%{{.*}}) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>, use_global_device_ids}> : (tensor<1x1xi32>) -> tensor<2x1xi32>
// CHECK:       "stablehlo.reduce_scatter"(%{{.*}}) <{{.*}}scatter_dimension = 0 : i64
// CHECK:       (tensor<2x1xi32>) -> tensor<1x1xi32>
module attributes {gnomon.mesh = {axes = ["x", "y"], sizes = array<i64: 2, 3>,
                                  devices = array<i64: 0, 1, 2, 3, 4, 5>}} {
  func.func private @f() -> tensor<1xi32> {
    %i = "gnomon.axis_index"() {axes = ["x"]} : () -> tensor<i32>
    %j = "gnomon.ppermute"(%i) {axes = ["x"], permutation = [array<i64: 0, 1>]}
      : (tensor<i32>) -> tensor<i32>
    %k = "gnomon.psum"(%j) {axes = ["y"], groups = [array<i64: 0, 2>, array<i64: 1>]}
      : (tensor<i32>) -> tensor<i32>
    %l = "gnomon.reshape"(%k) {shape = array<i64: 1>} : (tensor<i32>) -> tensor<1xi32>
    %m = "gnomon.all_gather"(%l) {axes = ["x"], dimension = 0 : i64, groups = [], size = 2 : i64}
      : (tensor<1xi32>) -> tensor<2x1xi32>
    %n = "gnomon.psum_scatter"(%m) {axes = ["x"], dimension = 0 : i64, groups = [],
                                    size = 2 : i64} : (tensor<2x1xi32>) -> tensor<1xi32>
    return %n : tensor<1xi32>
  }
  func.func @main() -> tensor<6xi32> {
    %y = "gnomon.shard_map"() {callee = @f, mesh_axes = ["x", "y"], mesh_sizes = array<i64: 2, 3>,
                               manual_axes = ["x", "y"], in_specs = [],
                               out_specs = [[["x", "y"]]], check_vma = true} : () -> tensor<6xi32>
    return %y : tensor<6xi32>
  }
}

// -----

// A gradient: the forward function returns the residuals with a new dimension that the manual axes
// split. The axis that is not manual may split the values further.

// CHECK-LABEL: func.func @main
// CHECK:       xla.sdy.in_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22, ?}]>]>"
// CHECK:       %[[SAVED:.*]]:2 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape
// CHECK-SAME:  xla.sdy.out_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22, ?}]>, <@mesh, [{\22x\22, ?}, {?}]>]>"
// CHECK-SAME:  -> (tensor<8xf32>, tensor<2x4xf32>)
// CHECK:       stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%[[SAVED]]#1, %{{[^ ]*}})
// CHECK-SAME:  -> (tensor<1x4xf32>, tensor<4xf32>)
module attributes {gnomon.mesh = {axes = ["x", "y"], sizes = array<i64: 2, 2>,
                                  devices = array<i64: 0, 1, 2, 3>}} {
  func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = "gnomon.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func private @g(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["x", "y"],
                                 mesh_sizes = array<i64: 2, 2>, manual_axes = ["x"],
                                 in_specs = [[["x"]]], out_specs = [[["x"]]], check_vma = true}
      : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
  func.func @main(%x: tensor<8xf32>, %ct: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %y, %g = "gnomon.vjp"(%x, %ct) {callee = @g, wrt = array<i64: 0>, outputs = array<i64: 0>}
      : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    return %y, %g : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// A constraint on devices in another order, with one dimension left open.

// CHECK:       xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2], device_ids=[1, 0]>}"
// CHECK:       stablehlo.custom_call @Sharding
// CHECK-SAME:  "#sdy.sharding_per_value<[<@mesh, [{?}, {\22x\22}]>]>"
module attributes {gnomon.mesh = {axes = ["x"], sizes = array<i64: 2>,
                                  devices = array<i64: 5, 4>}} {
  func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %y = "gnomon.sharding_constraint"(%x) {names = ["x"], sizes = array<i64: 2>, types = ["auto"],
                                           devices = array<i64: 4, 5>, spec = ["?", "x"]}
      : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %y : tensor<4x6xf32>
  }
}
