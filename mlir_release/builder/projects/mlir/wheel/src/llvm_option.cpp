// LLVM's options for a library, which has no command line: MLIR's C API reaches none of them.
#include "mlir-c/Support.h"

#include "llvm/Support/CommandLine.h"

// Set an option, as "-name=value" would. False: there is no such option, or no such value.
extern "C" MLIR_CAPI_EXPORTED bool mlirReleaseSetLLVMOption(const char *name,
                                                            const char *value) {
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find(name);
  if (found == options.end())
    return false;
  found->second->reset(); // most may be given once
  return !found->second->addOccurrence(0, name, value);
}
