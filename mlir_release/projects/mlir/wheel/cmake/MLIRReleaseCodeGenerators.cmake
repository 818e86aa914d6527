# Which of LLVM's code generators are linked. MLIR's libraries refer to all that the SDK was built with; those which a
# profile leaves out get initializers that do nothing, so that MLIR sees them as not registered, which it can report.

if(MLIR_RELEASE_PROFILE STREQUAL "core")
  set(MLIR_RELEASE_CODE_GENERATORS)
elseif(MLIR_RELEASE_PROFILE STREQUAL "host")
  set(MLIR_RELEASE_CODE_GENERATORS ${LLVM_NATIVE_ARCH})
else()
  set(MLIR_RELEASE_CODE_GENERATORS ${LLVM_NATIVE_ARCH} NVPTX AMDGPU)
endif()
foreach(_generator IN LISTS MLIR_RELEASE_CODE_GENERATORS)
  if(NOT _generator IN_LIST LLVM_TARGETS_TO_BUILD)
    message(FATAL_ERROR
      "The profile ${MLIR_RELEASE_PROFILE} needs the code generator ${_generator}, which the SDK does not have")
  endif()
endforeach()

set(MLIR_RELEASE_LEFT_OUT ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM MLIR_RELEASE_LEFT_OUT ${MLIR_RELEASE_CODE_GENERATORS} "")

function(mlir_release_leave_out_code_generators target)
  set(_initializers "")
  foreach(_generator IN LISTS MLIR_RELEASE_LEFT_OUT)
    foreach(_part TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler TargetMCA)
      string(APPEND _initializers "NOT_LINKED(LLVMInitialize${_generator}${_part})\n")
    endforeach()
  endforeach()
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/src/left_out_code_generators.c.in" left_out_code_generators.c @ONLY)
  set(_sources "${CMAKE_CURRENT_BINARY_DIR}/left_out_code_generators.c")
  if(MLIR_RELEASE_PROFILE STREQUAL "core")
    list(APPEND _sources "${CMAKE_CURRENT_SOURCE_DIR}/src/left_out_optimizer.cpp")
  endif()
  # Objects come before archives, so these definitions are taken and the archives' members are not.
  target_sources(${target} PRIVATE ${_sources})
  set_source_files_properties(${_sources} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
