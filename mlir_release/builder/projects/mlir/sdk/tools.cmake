# Included by mlir-sdk's CMake packages where mlir-sdk-tools is installed beside: its programs are those of the packages.
if(NOT MLIR_SDK_TOOLS_DIGEST STREQUAL MLIR_SDK_DIGEST)
  message(FATAL_ERROR
    "[mlir-sdk-tools-of-another] mlir-sdk-tools is not of the same SDK as mlir-sdk.\n"
    "  mlir-sdk: ${MLIR_SDK_TITLE}\n"
    "  mlir-sdk-tools: ${MLIR_SDK_TOOLS_TITLE}\n"
    "To do: install the same version of both.")
endif()

# The environment's folder of programs, from its site-packages; the last one is that of `pip install --target`.
foreach(_mlir_sdk_up "../../../../bin" "../../../Scripts" "../bin")
  get_filename_component(_mlir_sdk_bin "${CMAKE_CURRENT_LIST_DIR}/${_mlir_sdk_up}" ABSOLUTE)
  if(EXISTS "${_mlir_sdk_bin}/FileCheck${CMAKE_EXECUTABLE_SUFFIX}")
    set(LLVM_TOOLS_BINARY_DIR "${_mlir_sdk_bin}")
    if(EXISTS "${_mlir_sdk_bin}/lit")
      set(LLVM_DEFAULT_EXTERNAL_LIT "${_mlir_sdk_bin}/lit")
    endif()
    foreach(_mlir_sdk_tool ${MLIR_SDK_TOOLS})
      get_filename_component(_mlir_sdk_target "${_mlir_sdk_tool}" NAME_WLE)
      if(TARGET "${_mlir_sdk_target}" AND NOT EXISTS "${_mlir_sdk_root}/bin/${_mlir_sdk_tool}")
        set_target_properties("${_mlir_sdk_target}" PROPERTIES IMPORTED_LOCATION "${_mlir_sdk_bin}/${_mlir_sdk_tool}")
      endif()
    endforeach()
    break()
  endif()
endforeach()
