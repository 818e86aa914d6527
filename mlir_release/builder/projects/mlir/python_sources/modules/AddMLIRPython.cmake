# Upstream's functions, but for those that compile.
include("${MLIR_CMAKE_DIR}/AddMLIRPython.cmake")

foreach(_function IN ITEMS add_mlir_python_modules add_mlir_python_common_capi_library mlir_generate_type_stubs)
  function(${_function})
  endfunction()
endforeach()
