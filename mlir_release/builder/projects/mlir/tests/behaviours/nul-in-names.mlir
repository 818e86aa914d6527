// NUL, which ends a string of C, in names of all kinds.
module @"posenet\00int8" {
  llvm.func @"main\00entry"(%a: i32 loc("argument\00x"(unknown))) -> i32 attributes {note = "kept\00whole"} {
    llvm.return %a : i32 loc("result\00y"("a\00b.py":2:3))
  } loc("function\00z"("a\00b.py":1:1))
} loc("module\00w"(unknown))
