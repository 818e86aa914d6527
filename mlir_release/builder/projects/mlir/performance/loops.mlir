// Structured loops over memory: a sum of squares, and a stencil on part of a buffer.
func.func @loops(%in: memref<64x64xf32>, %out: memref<64x64xf32>) -> f32 {
  %zero = arith.constant 0.0 : f32
  %quarter = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c62 = arith.constant 62 : index
  %c64 = arith.constant 64 : index
  %inner = memref.subview %out[1, 1] [62, 62] [1, 1] : memref<64x64xf32> to memref<62x62xf32, strided<[64, 1], offset: 65>>
  scf.for %i = %c0 to %c62 step %c1 {
    scf.for %j = %c0 to %c62 step %c1 {
      %south = arith.addi %i, %c1 : index
      %east = arith.addi %j, %c1 : index
      %0 = memref.load %in[%i, %east] : memref<64x64xf32>
      %1 = memref.load %in[%south, %j] : memref<64x64xf32>
      %2 = arith.addf %0, %1 : f32
      %3 = arith.mulf %2, %quarter : f32
      memref.store %3, %inner[%i, %j] : memref<62x62xf32, strided<[64, 1], offset: 65>>
    }
  }
  %sum = scf.for %i = %c0 to %c64 step %c1 iter_args(%outer = %zero) -> (f32) {
    %row = scf.for %j = %c0 to %c64 step %c1 iter_args(%acc = %outer) -> (f32) {
      %4 = memref.load %in[%i, %j] : memref<64x64xf32>
      %5 = arith.mulf %4, %4 : f32
      %6 = arith.addf %acc, %5 : f32
      scf.yield %6 : f32
    }
    scf.yield %row : f32
  }
  return %sum : f32
}
