# The runner libraries: what code that MLIR lowers calls when it runs (copying and printing memrefs, sparse tensors,
# async). The execution engine is of little use without them, so profiles that have it ship them, in mlir/_mlir_libs
# (mlir._mlir_libs.get_lib_dirs()). They are built here: those of a distribution would link its libLLVM.so.

set(_sources "${MLIR_SOURCE_DIR}/lib/ExecutionEngine")

function(mlir_release_add_runner_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "HIDDEN" "" "SOURCES;LINK_LIBS")
  list(TRANSFORM ARG_SOURCES PREPEND "${_sources}/" OUTPUT_VARIABLE _files)
  add_library(${name}.package SHARED ${_files})
  target_compile_definitions(${name}.package PRIVATE ${name}_EXPORTS)
  if("Float16bits.cpp" IN_LIST ARG_SOURCES)
    target_compile_definitions(${name}.package PRIVATE mlir_float16_utils_EXPORTS)
  endif()
  target_link_libraries(${name}.package PRIVATE ${ARG_LINK_LIBS})
  set_target_properties(${name}.package PROPERTIES
    OUTPUT_NAME ${name}
    DEFINE_SYMBOL ""
    LIBRARY_OUTPUT_DIRECTORY "${_package_dir}/_mlir_libs"
    RUNTIME_OUTPUT_DIRECTORY "${_package_dir}/_mlir_libs"
    ARCHIVE_OUTPUT_DIRECTORY "${_package_dir}/_mlir_libs")
  if(ARG_HIDDEN)
    set_target_properties(${name}.package PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
  set(_archives "")
  if("LLVMSupport" IN_LIST ARG_LINK_LIBS)
    set(_archives LLVMSupport LLVMDemangle)
  endif()
  mlir_release_hide_archives(${name}.package ${_archives})
  if(NOT MSVC AND NOT MLIR_RELEASE_PLAIN)
    # The sparse tensor runtime is one file of templates over all types: half the size, and two thirds of the time.
    target_compile_options(${name}.package PRIVATE -Os)
  endif()
  llvm_update_compile_flags(${name}.package)
  mlir_python_setup_extension_rpath(${name}.package)
  set_target_properties(${name}.package PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  add_dependencies(mlir_package ${name}.package)
  install(TARGETS ${name}.package COMPONENT mlir_package
    LIBRARY DESTINATION mlir/_mlir_libs RUNTIME DESTINATION mlir/_mlir_libs)
endfunction()

find_package(Threads REQUIRED)
mlir_release_add_runner_library(mlir_float16_utils SOURCES Float16bits.cpp)
set(_common mlir_float16_utils.package)
set(_common_sources "")
if(WIN32)
  # A DLL that is loaded by its full path is not searched for beside the others, as ELF and Mach-O have it by their run
  # paths. So no runner library needs another one: each has these functions itself, and exports them.
  set(_common "")
  set(_common_sources Float16bits.cpp)
endif()
if(EXISTS "${_sources}/APFloatWrappers.cpp" AND NOT WIN32)
  mlir_release_add_runner_library(mlir_apfloat_wrappers HIDDEN SOURCES APFloatWrappers.cpp LINK_LIBS LLVMSupport)
  list(APPEND _common mlir_apfloat_wrappers.package)
endif()
file(GLOB _sparse_tensor RELATIVE "${_sources}" "${_sources}/SparseTensor/*.cpp")
list(SORT _sparse_tensor)
mlir_release_add_runner_library(mlir_c_runner_utils
  SOURCES CRunnerUtils.cpp SparseTensorRuntime.cpp ${_sparse_tensor} ${_common_sources}
  LINK_LIBS ${_common} LLVMSupport)
mlir_release_add_runner_library(mlir_runner_utils
  SOURCES RunnerUtils.cpp ${_common_sources}
  LINK_LIBS ${_common} LLVMSupport)
mlir_release_add_runner_library(mlir_async_runtime HIDDEN
  SOURCES AsyncRuntime.cpp
  LINK_LIBS LLVMSupport Threads::Threads)
