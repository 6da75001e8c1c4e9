// RUN: %not %gnomon-opt --passes=make-it-fast %s 2>&1 | %filecheck %s
// RUN: %gnomon-opt --list-passes | %filecheck %s --check-prefix=LIST

// CHECK: there is no pass 'make-it-fast' for the target cpu; the passes are
// LIST:  expand-transformations
// LIST:  lower-to-stablehlo
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
