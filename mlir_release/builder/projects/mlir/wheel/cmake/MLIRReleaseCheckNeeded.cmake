# Nothing may be needed that the wheel does not carry, but for the C and C++ runtimes of every machine: a libLLVM.so that
# slips in gives a small wheel that works on the machine that built it, and nowhere else.

function(mlir_release_check_needed package package_dir)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()  # "wheels inspect" checks it there, and on macOS delocate, too
  endif()
  add_custom_target(${package}_check_needed ALL
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/check_needed.py" "${package_dir}/_mlir_libs"
    COMMENT "Checking what the libraries need"
    VERBATIM)
  add_dependencies(${package}_check_needed ${package})
endfunction()
