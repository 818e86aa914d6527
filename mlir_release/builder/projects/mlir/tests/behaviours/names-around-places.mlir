// Names around places, on an operation that has its function's file, and one that has another.
module {
  llvm.func @f(%a: i32) -> i32 {
    %0 = llvm.add %a, %a : i32 loc("n"("a.py":2:3))
    llvm.return %0 : i32 loc("outer"("inner"("b.py":4:5)))
  } loc("f"("a.py":1:1))
}
