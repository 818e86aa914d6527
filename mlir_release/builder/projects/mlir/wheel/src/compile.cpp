// LLVM IR to an object file for any processor: MLIR's C API compiles for this machine and for GPUs only.
#include "mlir-c/Support.h"

#include "llvm-c/Core.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace {

std::string takeMessage(char *message) {
  std::string text = message ? message : "";
  LLVMDisposeMessage(message);
  return text;
}

// Without a handler, LLVM ends the process at an error.
void keepErrors(LLVMDiagnosticInfoRef info, void *errors) {
  if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
    *static_cast<std::string *>(errors) += takeMessage(LLVMGetDiagInfoDescription(info)) + "\n";
}

} // namespace

// Compile the LLVM IR in "ir", which a NUL follows. "take" gets the object or assembly; if it returns false, the error.
extern "C" MLIR_CAPI_EXPORTED bool
mlirReleaseCompile(const char *ir, size_t size, const char *triple, const char *cpu, const char *features, int level,
                   bool assembly, void (*take)(const char *data, size_t size)) {
  static const bool initialized = [] {
    LLVMInitializeAllTargetInfos();
    LLVMInitializeAllTargets();
    LLVMInitializeAllTargetMCs();
    LLVMInitializeAllAsmPrinters();
    LLVMInitializeAllAsmParsers(); // for inline assembly
    return true;
  }();
  (void)initialized;
  auto fail = [&](const std::string &why) {
    take(why.data(), why.size());
    return false;
  };
  char *message = nullptr;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &message))
    return fail(takeMessage(message));
  if (!LLVMTargetHasTargetMachine(target) || !(assembly || LLVMTargetHasAsmBackend(target)))
    return fail(std::string("LLVM makes no object files for ") + triple + ", perhaps assembly"); // as for nvptx64

  std::string errors;
  llvm::LLVMContext context;
  LLVMContextSetDiagnosticHandler(llvm::wrap(&context), keepErrors, &errors);
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(llvm::StringRef(ir, size), "ir"), diagnostic, context);
  if (!module) {
    llvm::raw_string_ostream stream(errors);
    diagnostic.print(nullptr, stream, /*ShowColors=*/false);
    stream.flush();
    return fail(errors);
  }
  LLVMModuleRef handle = llvm::wrap(module.get());
  auto optimization = static_cast<LLVMCodeGenOptLevel>(level);
  auto machine =
      LLVMCreateTargetMachine(target, triple, cpu, features, optimization, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(handle, layout);
  LLVMSetTarget(handle, triple);
  LLVMMemoryBufferRef made = nullptr;
  auto kind = assembly ? LLVMAssemblyFile : LLVMObjectFile;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, handle, kind, &message, &made))
    errors += takeMessage(message);
  if (errors.empty())
    take(LLVMGetBufferStart(made), LLVMGetBufferSize(made));
  if (made)
    LLVMDisposeMemoryBuffer(made);
  LLVMDisposeTargetData(layout);
  LLVMDisposeTargetMachine(machine);
  return errors.empty() || fail(errors);
}
