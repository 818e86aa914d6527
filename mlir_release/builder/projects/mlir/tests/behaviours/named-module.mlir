module @posenet attributes {llvm.data_layout = "e"} {
  llvm.func @main(%a: i32 loc("a.py":1:6)) -> i32 {
    llvm.return %a : i32 loc("a.py":2:3)
  } loc("a.py":1:1)
} loc("posenet"(unknown))
