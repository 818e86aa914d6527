# The package: the C API as one shared library, the extension modules, the Python files, the headers of the C API.

include(MLIRReleaseCodeGenerators)
include(MLIRReleaseHide)
include(MLIRReleaseRegallocModel)

# mlir_release_add_c_api(name component output_dir sources...)
# The shared library that all modules share, from the C API libraries that the groups of sources ask for.
function(mlir_release_add_c_api name component output_dir)
  add_mlir_python_common_capi_library(${name}
    INSTALL_COMPONENT ${component}
    INSTALL_DESTINATION mlir/_mlir_libs
    OUTPUT_DIRECTORY "${output_dir}/_mlir_libs"
    RELATIVE_INSTALL_ROOT ".."
    DECLARED_HEADERS MLIRPythonCAPI.HeaderSources
    DECLARED_SOURCES ${ARGN})
  mlir_release_leave_out_code_generators(${name})
  # Wheels store symbolic links as full copies, so the library must have one name only.
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${MLIR_RELEASE_C_API} BUILD_WITH_INSTALL_RPATH ON)
  set_property(TARGET ${name} PROPERTY VERSION)
  set_property(TARGET ${name} PROPERTY SOVERSION)
  if(MLIR_RELEASE_PLAIN)
    return()
  endif()
  mlir_release_hide_all_but_c_api(${name})
  if(MLIR_RELEASE_LLD)
    # Fold identical functions, whether or not their addresses are taken. "safe" folding gains nothing with archives
    # that were stripped (the tables of address-taken symbols do not survive that). MLIR and LLVM compare addresses
    # of data (TypeID, pass and analysis ids), which is never folded; upstream's tests pass the same with and without.
    target_link_options(${name} PRIVATE "LINKER:--icf=all")
    if(MLIR_RELEASE_LINKS)
      # It knows nothing of Python, so a further CPython's is a copy.
      set(_link_once "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/link_once.py" "${CMAKE_BINARY_DIR}"
        "${CMAKE_CURRENT_SOURCE_DIR}" "${MLIR_RELEASE_SDK}" "${MLIR_RELEASE_LINKS}")
      list(JOIN _link_once "\" \"" _link_once)
      set_property(TARGET ${name} PROPERTY RULE_LAUNCH_LINK "\"${_link_once}\"")
    endif()
  endif()
endfunction()

set(_package_dir "${CMAKE_CURRENT_BINARY_DIR}/package/mlir")
set(_package_sources ${MLIR_RELEASE_GROUPS})

mlir_release_add_c_api(mlir_c_api mlir_package "${_package_dir}" ${_package_sources})
mlir_release_add_regalloc_model(mlir_c_api)
if(MLIR_RELEASE_HAS_COMPRESSION_SORT)
  # Functions that are alike side by side, where deflate finds them: a tenth less to download. It takes half a minute of
  # CPU, so the library of the tests does without. Any number of threads gives the same bytes; starting is no slower.
  target_link_options(mlir_c_api PRIVATE "LINKER:--bp-compression-sort=both")
endif()

add_mlir_python_modules(mlir_package
  ROOT_PREFIX "${_package_dir}"
  INSTALL_PREFIX mlir
  DECLARED_SOURCES ${_package_sources}
  COMMON_CAPI_LINK_LIBS mlir_c_api)

include(MLIRReleaseModules)
mlir_release_tune_modules(mlir_package)
if(MLIR_ENABLE_EXECUTION_ENGINE)
  include(MLIRReleaseRunnerLibraries)
endif()
include(MLIRReleaseStubs)
include(MLIRReleaseReference)
include(MLIRReleaseExtension)

# Which build this is, and the check that only one distribution of the bindings is installed.
install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/mlir/" DESTINATION mlir COMPONENT mlir_package
  PATTERN "__pycache__" EXCLUDE)

# The licence of the binding library, out of its own distribution, beside those of what the SDK brings.
if(SKBUILD)
  set(_binding_library pybind11)
  if(COMMAND nanobind_add_module)
    set(_binding_library nanobind)
  endif()
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/find_license.py" ${_binding_library}
    OUTPUT_VARIABLE _license OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _result)
  if(NOT _result EQUAL 0)
    message(FATAL_ERROR "The licence of ${_binding_library} was not found in its distribution")
  endif()
  install(FILES "${_license}" DESTINATION "${SKBUILD_METADATA_DIR}/licenses/licenses" RENAME ${_binding_library}.txt
    COMPONENT mlir_package)
endif()

include(MLIRReleaseCheckNeeded)
mlir_release_check_needed(mlir_package "${_package_dir}")
