# Included where LLVMConfig.cmake and MLIRConfig.cmake of an installed mlir-sdk begin. What can't work is refused here,
# with one message, before it fails in the middle of a build.
include("${CMAKE_CURRENT_LIST_DIR}/facts.cmake")
get_filename_component(_mlir_sdk_root "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)

get_property(_mlir_sdk_first GLOBAL PROPERTY MLIR_SDK_ROOT)
if(_mlir_sdk_first AND NOT _mlir_sdk_first STREQUAL _mlir_sdk_root)
  message(FATAL_ERROR
    "[mlir-sdk-two-sdks] This project finds two SDKs of MLIR: ${_mlir_sdk_first} and ${_mlir_sdk_root}.\n"
    "To do: let MLIR_DIR, LLVM_DIR and CMAKE_PREFIX_PATH name the same one, and uninstall the other.")
endif()
set_property(GLOBAL PROPERTY MLIR_SDK_ROOT "${_mlir_sdk_root}")

set(_mlir_sdk_processor "${CMAKE_SYSTEM_PROCESSOR}")
if(APPLE AND CMAKE_OSX_ARCHITECTURES)
  set(_mlir_sdk_processor "${CMAKE_OSX_ARCHITECTURES}")
endif()
string(TOLOWER "${_mlir_sdk_processor}" _mlir_sdk_processor)
if(NOT CMAKE_SYSTEM_NAME STREQUAL MLIR_SDK_SYSTEM OR NOT _mlir_sdk_processor IN_LIST MLIR_SDK_PROCESSORS)
  message(FATAL_ERROR
    "[mlir-sdk-other-platform] This mlir-sdk is for ${MLIR_SDK_PLATFORM}, and the build is for "
    "${CMAKE_SYSTEM_NAME} on ${_mlir_sdk_processor}.\n"
    "  where: ${_mlir_sdk_root}\n"
    "To do: install mlir-sdk for the platform that is built for.")
endif()

# Objects and results of searches that are in a build tree are those of the SDK that it was configured with.
if(DEFINED CACHE{MLIR_SDK_OF_THIS_BUILD} AND NOT "$CACHE{MLIR_SDK_OF_THIS_BUILD}" STREQUAL MLIR_SDK_TITLE)
  message(FATAL_ERROR
    "[mlir-sdk-other-version] This build folder was configured with $CACHE{MLIR_SDK_OF_THIS_BUILD}; "
    "what is installed now is ${MLIR_SDK_TITLE}.\n"
    "  where: ${CMAKE_BINARY_DIR}\n"
    "To do: build in a new folder, or delete this one; or install the SDK that it was configured with.")
endif()
set(MLIR_SDK_OF_THIS_BUILD "${MLIR_SDK_TITLE}" CACHE INTERNAL "The SDK that this build folder is for")
