// The profile without code generators also leaves out LLVM's optimizer, which only serves to generate code.
#include "mlir/ExecutionEngine/OptUtils.h"

#include "llvm/Support/Error.h"

std::function<llvm::Error(llvm::Module *)>
mlir::makeOptimizingTransformer(unsigned, unsigned, llvm::TargetMachine *) {
  return [](llvm::Module *) -> llvm::Error {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "mlir-core has no LLVM optimizer and no code generators: install mlir or mlir-full");
  };
}
