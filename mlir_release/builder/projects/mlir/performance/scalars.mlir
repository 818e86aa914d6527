// Constants to fold, uses to merge, dead code, branches that are known: work for the canonicalizer.
func.func @scalars(%a: i32, %b: i32, %c: i1) -> i32 attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %true = arith.constant true
  %0 = arith.addi %a, %zero : i32
  %1 = arith.muli %0, %one : i32
  %2 = arith.addi %one, %two : i32
  %3 = arith.addi %1, %2 : i32
  %4 = arith.addi %3, %two : i32
  %5 = arith.subi %4, %zero : i32
  %dead = arith.muli %5, %b : i32
  %6 = arith.extsi %5 : i32 to i64
  %7 = arith.trunci %6 : i64 to i32
  %8 = arith.select %true, %7, %b : i32
  %9 = scf.if %c -> (i32) {
    %10 = arith.xori %8, %8 : i32
    %11 = arith.ori %10, %b : i32
    scf.yield %11 : i32
  } else {
    %12 = arith.andi %8, %8 : i32
    %13 = arith.shli %12, %zero : i32
    scf.yield %13 : i32
  }
  %14 = scf.if %true -> (i32) {
    scf.yield %9 : i32
  } else {
    scf.yield %a : i32
  }
  return %14 : i32
}
