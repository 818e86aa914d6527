# Type stubs of the core module, where upstream makes them (LLVM 22 and later; before, they are files in its tree).

if(NOT COMMAND mlir_generate_type_stubs OR CMAKE_CROSSCOMPILING)
  return()
endif()

set(_stubgen "")
foreach(_candidate "${nanobind_DIR}/../src/stubgen.py" "${nanobind_DIR}/../stubgen.py")
  if(EXISTS "${_candidate}")
    set(_stubgen "${_candidate}")
    break()
  endif()
endforeach()
if(NOT _stubgen)
  message(FATAL_ERROR "nanobind at ${nanobind_DIR} has no stubgen.py")
endif()

set(_stubs "${CMAKE_CURRENT_BINARY_DIR}/stubs")
add_custom_command(
  OUTPUT "${_stubs}/_mlir/__init__.pyi"
  # The core module imports nothing else of the package, so it can be loaded before the package is complete.
  COMMAND "${Python_EXECUTABLE}" "${_stubgen}" --quiet --module _mlir --recursive --include-private
          --import "${_package_dir}/_mlir_libs" --output-dir "${_stubs}"
  DEPENDS mlir_package.extension._mlir.dso
  COMMENT "Generating type stubs"
  VERBATIM)
add_custom_target(mlir_package_stubs DEPENDS "${_stubs}/_mlir/__init__.pyi")
add_dependencies(mlir_package mlir_package_stubs)
install(DIRECTORY "${_stubs}/" DESTINATION mlir/_mlir_libs COMPONENT mlir_package FILES_MATCHING PATTERN "*.pyi")
