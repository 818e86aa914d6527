# A learned policy for evictions in LLVM's register allocator, and what turns it on: a library has no command line.
#
#   MLIR_RELEASE_REGALLOC_MODEL  SHA-256 of the policy; empty: LLVM's own heuristic
#
# The model is in regalloc/, unless the SDK was compiled with it. LLVM's advisor is one source, compiled again with it.

set(MLIR_RELEASE_REGALLOC_MODEL "" CACHE STRING "SHA-256 of the learned eviction policy")

function(mlir_release_add_regalloc_model target)
  if(NOT MLIR_RELEASE_REGALLOC_MODEL)
    return()
  endif()
  set(_options "${CMAKE_CURRENT_SOURCE_DIR}/src/llvm_option.cpp")
  set(_model "${CMAKE_CURRENT_SOURCE_DIR}/regalloc")
  set(_compiled "")
  if(EXISTS "${_model}")
    set(_advisor "${CMAKE_CURRENT_SOURCE_DIR}/upstream/llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp")
    set(_compiled "${_advisor}" "${_model}/RegAllocEvictModel.cpp")
    # LLVM_BUILD_STATIC: what LLVM declares as exported is hidden, too, as LLVM's archives are.
    set_source_files_properties(${_compiled} TARGET_DIRECTORY ${target} PROPERTIES
      COMPILE_DEFINITIONS "LLVM_HAVE_TF_AOT_REGALLOCEVICTMODEL;LLVM_BUILD_STATIC"
      INCLUDE_DIRECTORIES "${_model}")
    if(NOT MSVC)
      # Fused operations would round otherwise than the policy that was trained.
      set_source_files_properties(${_compiled} TARGET_DIRECTORY ${target} PROPERTIES
        COMPILE_OPTIONS "-fvisibility=hidden;-ffp-contract=off")
    endif()
  endif()
  # Objects come before archives, whose own advisor is then not taken.
  target_sources(${target} PRIVATE ${_compiled} "${_options}")
  set_source_files_properties(${_compiled} "${_options}" TARGET_DIRECTORY ${target} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()
