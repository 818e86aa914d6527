// As importers of TensorFlow Lite make them, of PoseNet for example: everywhere a name, and no place behind it.
module {
  llvm.func @callee(%a: i32 loc("argument"(unknown))) -> i32 {
    llvm.return %a : i32 loc("result"(unknown))
  } loc("callee"(unknown))
  llvm.func @main(%a: i32 loc("input"(unknown))) -> i32 {
    %0 = llvm.add %a, %a : i32 loc("sum"(unknown))
    %1 = llvm.call @callee(%0) : (i32) -> i32 loc("call"(unknown))
    llvm.return %1 : i32 loc("output"(unknown))
  } loc("main"(unknown))
} loc("posenet"(unknown))
