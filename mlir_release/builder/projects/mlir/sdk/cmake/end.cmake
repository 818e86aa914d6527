# Included where LLVMConfig.cmake and MLIRConfig.cmake of an installed mlir-sdk end.
get_property(_mlir_sdk_root GLOBAL PROPERTY MLIR_SDK_ROOT)

if(LLVM_DIR)
  get_filename_component(_mlir_sdk_llvm "${LLVM_DIR}" REALPATH)
  if(NOT _mlir_sdk_llvm STREQUAL "${_mlir_sdk_root}/lib/cmake/llvm")
    message(FATAL_ERROR
      "[mlir-sdk-two-sdks] MLIR is that of ${_mlir_sdk_root}, but LLVM is another one: ${_mlir_sdk_llvm}.\n"
      "To do: unset LLVM_DIR, and let nothing else in CMAKE_PREFIX_PATH hold an LLVM.")
  endif()
endif()

# The programs of mlir-sdk-tools, where that is installed beside.
include("${_mlir_sdk_root}/../mlir_sdk_tools/tools.cmake" OPTIONAL)

# Whether this compiler, its C++ library and the C library can use the SDK's libraries is tried, once.
if(NOT DEFINED CACHE{MLIR_SDK_LINKS} AND TARGET LLVMSupport AND CMAKE_CXX_COMPILER_LOADED)
  set(_mlir_sdk_trial "${CMAKE_BINARY_DIR}/CMakeFiles/mlir-sdk")
  file(WRITE "${_mlir_sdk_trial}/trial.cpp" [[
#include "llvm/Support/Process.h"
int main() { return llvm::sys::Process::GetEnv("MLIR_SDK").has_value(); }
]])
  try_compile(MLIR_SDK_LINKS "${_mlir_sdk_trial}/build" "${_mlir_sdk_trial}/trial.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${_mlir_sdk_root}/include"
    LINK_LIBRARIES LLVMSupport
    OUTPUT_VARIABLE _mlir_sdk_output
    CXX_STANDARD 17)
  if(NOT MLIR_SDK_LINKS)
    unset(MLIR_SDK_LINKS CACHE)
    string(LENGTH "${_mlir_sdk_output}" _mlir_sdk_length)
    if(_mlir_sdk_length GREATER 3000)
      math(EXPR _mlir_sdk_length "${_mlir_sdk_length} - 3000")
      string(SUBSTRING "${_mlir_sdk_output}" ${_mlir_sdk_length} -1 _mlir_sdk_output)
    endif()
    message(FATAL_ERROR
      "[mlir-sdk-cannot-be-linked] ${CMAKE_CXX_COMPILER} can't link the libraries of ${MLIR_SDK_TITLE}.\n"
      "  the SDK needs: ${MLIR_SDK_C_RUNTIME} or newer\n"
      "  this compiler: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\n"
      "To do: use a newer compiler and C++ library (a newer manylinux image, say), and no other C++ ABI or runtime.\n"
      "${_mlir_sdk_output}")
  endif()
endif()

# nanobind is found after MLIR, so it is looked at when the project's CMakeLists.txt ends.
function(mlir_sdk_check_nanobind)
  if(NOT nanobind_VERSION)
    return()
  endif()
  set(rules ${MLIR_SDK_NANOBIND})
  while(rules)
    list(POP_FRONT rules comparison version)
    if(NOT nanobind_VERSION ${comparison} version)
      message(FATAL_ERROR
        "[mlir-sdk-wrong-nanobind] nanobind ${nanobind_VERSION} is not what the bindings of ${MLIR_SDK_TITLE} are for: "
        "${MLIR_SDK_NANOBIND_REQUIREMENT}.\n"
        "To do: require '${MLIR_SDK_NANOBIND_REQUIREMENT}' in [build-system] of pyproject.toml.")
    endif()
  endwhile()
endfunction()
get_property(_mlir_sdk_deferred GLOBAL PROPERTY MLIR_SDK_DEFERRED)
if(NOT _mlir_sdk_deferred)
  set_property(GLOBAL PROPERTY MLIR_SDK_DEFERRED ON)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL mlir_sdk_check_nanobind)
endif()
