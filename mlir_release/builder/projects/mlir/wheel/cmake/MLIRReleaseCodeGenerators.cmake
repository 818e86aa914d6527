# Which of LLVM's code generators are linked. MLIR's libraries refer to all that the SDK was built with; those which a
# profile leaves out get initializers that do nothing, so that MLIR sees them as not registered, which it can report.
# These are weak definitions: they keep the linker from taking the real ones out of the archives, and give way where the
# link takes the same part of a code generator for another reason (LLVM 23's XeVM target needs parts of SPIRV's).

if(MLIR_RELEASE_PROFILE STREQUAL "core")
  set(MLIR_RELEASE_CODE_GENERATORS)
elseif(MLIR_RELEASE_PROFILE STREQUAL "host")
  set(MLIR_RELEASE_CODE_GENERATORS ${LLVM_NATIVE_ARCH})
elseif(MLIR_RELEASE_PROFILE STREQUAL "all")
  set(MLIR_RELEASE_CODE_GENERATORS ${LLVM_TARGETS_TO_BUILD})
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

# mlir_release_code_generator_parts(variable)
# What has an initializer of its own in each code generator (TargetInfo, AsmPrinter, ...), by LLVM's own header.
function(mlir_release_code_generator_parts variable)
  set(_header "${MLIR_RELEASE_SDK}/include/llvm/Support/TargetSelect.h")
  file(STRINGS "${_header}" _lines REGEX "LLVMInitialize##TargetName##")
  string(REGEX MATCHALL "##TargetName##[A-Za-z]+" _parts "${_lines}")
  list(TRANSFORM _parts REPLACE "##TargetName##" "")
  list(REMOVE_DUPLICATES _parts)
  if(NOT _parts)
    message(FATAL_ERROR "${_header} no longer names the initializers of code generators (LLVMInitialize##TargetName##…)")
  endif()
  set(${variable} ${_parts} PARENT_SCOPE)
endfunction()

function(mlir_release_leave_out_code_generators target)
  mlir_release_code_generator_parts(_parts)
  set(_initializers "")
  foreach(_generator IN LISTS MLIR_RELEASE_LEFT_OUT)
    foreach(_part IN LISTS _parts)
      string(APPEND _initializers "NOT_LINKED(LLVMInitialize${_generator}${_part})\n")
    endforeach()
  endforeach()
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/src/left_out_code_generators.c.in" left_out_code_generators.c @ONLY)
  set(_sources "${CMAKE_CURRENT_BINARY_DIR}/left_out_code_generators.c")
  if(MLIR_RELEASE_PROFILE STREQUAL "core")
    list(APPEND _sources "${CMAKE_CURRENT_SOURCE_DIR}/src/left_out_optimizer.cpp")
  elseif(MLIR_RELEASE_PROFILE STREQUAL "all")
    # It uses them: MLIR's C API compiles for this machine and for GPUs only.
    list(APPEND _sources "${CMAKE_CURRENT_SOURCE_DIR}/src/compile.cpp")
    llvm_map_components_to_libnames(_libraries irreader AllTargetsAsmParsers AllTargetsCodeGens)
    target_link_libraries(${target} PRIVATE ${_libraries})
  endif()
  # Objects come before archives, so the archives are not searched for what is defined here.
  target_sources(${target} PRIVATE ${_sources})
  set_source_files_properties(${_sources} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
