# find_package(MLIRExtension): build an extension of the `mlir` that this file is part of.
#
#   MLIRExtension::CAPI                  headers of the C API, and the library of it that all of `mlir` shares
#   mlir_extension_module(...)           makes a Python module one of such an extension, see below
#   MLIRExtension_VERSION, _REVISION     which `mlir`, and llvm-project's commit; _DISTRIBUTION, _PROFILE, _TAG,
#                                        _LLVM_VERSION
#   MLIRExtension_NANOBIND_VERSION       what its own modules were built with, where that is nanobind; _NB_DOMAIN
#   MLIRExtension_SDK                    digest of the SDK that it was built with; _SDK_WHEEL: mlir-sdk==VERSION, if the
#                                        same release makes a wheel of it
#   MLIRExtension_C_RUNTIME              the oldest C runtime that it runs on

include("${CMAKE_CURRENT_LIST_DIR}/facts.cmake")
get_filename_component(_mlir_extension_libs "${CMAKE_CURRENT_LIST_DIR}/../../../../_mlir_libs" ABSOLUTE)
set(_mlir_extension_check "${CMAKE_CURRENT_LIST_DIR}/check.py.in")

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" _mlir_extension_processor)
if(APPLE AND CMAKE_OSX_ARCHITECTURES)
  string(TOLOWER "${CMAKE_OSX_ARCHITECTURES}" _mlir_extension_processor)
endif()
if(NOT CMAKE_SYSTEM_NAME STREQUAL MLIRExtension_SYSTEM
   OR NOT _mlir_extension_processor STREQUAL MLIRExtension_PROCESSOR)
  message(FATAL_ERROR
    "[mlir-extension-other-platform] This mlir is for ${MLIRExtension_SYSTEM} on ${MLIRExtension_PROCESSOR}, and the "
    "build is for ${CMAKE_SYSTEM_NAME} on ${_mlir_extension_processor}.\n"
    "  where: ${_mlir_extension_libs}\n"
    "To do: install the wheel of mlir for the platform that is built for.")
endif()

# A project may find mlir-sdk, too, for its programs (mlir-tblgen) and headers; before or after this package.
function(mlir_extension_check_sdk)
  include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/facts.cmake")  # the package may be found in a subdirectory alone
  get_property(root GLOBAL PROPERTY MLIR_SDK_ROOT)
  if(NOT root OR NOT MLIRExtension_SDK)
    return()
  endif()
  file(READ "${root}/_mlir_sdk.json" sdk)
  string(JSON digest GET "${sdk}" digest)
  if(digest STREQUAL MLIRExtension_SDK)
    return()
  endif()
  string(JSON version GET "${sdk}" version)
  set(remedy "install mlir and mlir-sdk of one release; that of this mlir (${MLIRExtension_TAG}) has no mlir-sdk.")
  if(MLIRExtension_SDK_WHEEL)
    set(remedy "install ${MLIRExtension_SDK_WHEEL}, from the release ${MLIRExtension_TAG}.")
  endif()
  message(FATAL_ERROR
    "[mlir-extension-other-sdk] ${MLIRExtension_DISTRIBUTION} ${MLIRExtension_VERSION} was not built with this mlir-sdk, "
    "so their headers and generated code may differ.\n"
    "  where: ${root}, which is mlir-sdk ${version}\n"
    "To do: ${remedy}")
endfunction()
get_property(_mlir_extension_deferred GLOBAL PROPERTY MLIR_EXTENSION_DEFERRED)
if(NOT _mlir_extension_deferred)
  set_property(GLOBAL PROPERTY MLIR_EXTENSION_DEFERRED ON)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL mlir_extension_check_sdk)
endif()

if(NOT TARGET MLIRExtension::CAPI)
  add_library(MLIRExtension::CAPI SHARED IMPORTED)
  set_target_properties(MLIRExtension::CAPI PROPERTIES
    IMPORTED_LOCATION "${_mlir_extension_libs}/${MLIRExtension_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_mlir_extension_libs}/include"
    INTERFACE_COMPILE_DEFINITIONS "MLIR_PYTHON_PACKAGE_PREFIX=mlir.")
  if(MLIRExtension_IMPORT_LIBRARY)
    set_target_properties(MLIRExtension::CAPI PROPERTIES
      IMPORTED_IMPLIB "${_mlir_extension_libs}/${MLIRExtension_IMPORT_LIBRARY}")
  endif()
endif()

# mlir_extension_module(<target> PACKAGE <folder>)
# Links a Python module to the library of `mlir`, and installs it into the package <folder> (`example`, `example/native`)
# beside `_mlir_check.py`. The package imports that first: it says in one error if another `mlir` is installed than the
# one that this was built with (another commit, or another profile), and loads the library, wherever it is.
function(mlir_extension_module target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PACKAGE" "")
  if(NOT arg_PACKAGE)
    message(FATAL_ERROR "mlir_extension_module(${target}) needs PACKAGE, the folder of the Python package")
  endif()
  get_target_property(definitions ${target} COMPILE_DEFINITIONS)
  if("NB_DOMAIN=${MLIRExtension_NB_DOMAIN}" IN_LIST definitions
     AND NOT nanobind_VERSION STREQUAL MLIRExtension_NANOBIND_VERSION)
    message(FATAL_ERROR
      "[mlir-extension-wrong-nanobind] ${target} is to share nanobind's types with mlir (NB_DOMAIN "
      "${MLIRExtension_NB_DOMAIN}), which was built with nanobind ${MLIRExtension_NANOBIND_VERSION}; "
      "this is nanobind ${nanobind_VERSION}, and would see none of them.\n"
      "To do: require 'nanobind==${MLIRExtension_NANOBIND_VERSION}' in [build-system], or use a domain of your own.")
  endif()

  target_link_libraries(${target} PRIVATE MLIRExtension::CAPI)
  string(REGEX REPLACE "[^/]+" ".." up "${arg_PACKAGE}")
  if(APPLE)
    set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH "@loader_path/${up}/mlir/_mlir_libs")
  elseif(NOT WIN32)
    set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH "$ORIGIN/${up}/mlir/_mlir_libs")
  endif()

  set(MLIRExtension_PACKAGE "${arg_PACKAGE}")
  set(check "${CMAKE_CURRENT_BINARY_DIR}/${arg_PACKAGE}/_mlir_check.py")
  configure_file("${_mlir_extension_check}" "${check}" @ONLY)
  install(TARGETS ${target} LIBRARY DESTINATION "${arg_PACKAGE}" RUNTIME DESTINATION "${arg_PACKAGE}")
  install(FILES "${check}" DESTINATION "${arg_PACKAGE}")
endfunction()
