// Linear algebra on buffers: a matrix product with a bias and a rectifier after it.
#map = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
func.func @tensors(%a: memref<16x32xf32>, %b: memref<32x8xf32>, %bias: memref<8xf32>, %c: memref<16x8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<16x8xf32>)
  linalg.matmul ins(%a, %b : memref<16x32xf32>, memref<32x8xf32>) outs(%c : memref<16x8xf32>)
  linalg.generic {indexing_maps = [#row, #map], iterator_types = ["parallel", "parallel"]}
      ins(%bias : memref<8xf32>) outs(%c : memref<16x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.addf %in, %out : f32
      %1 = arith.cmpf ogt, %0, %zero : f32
      %2 = arith.select %1, %0, %zero : f32
      linalg.yield %2 : f32
  }
  return
}
