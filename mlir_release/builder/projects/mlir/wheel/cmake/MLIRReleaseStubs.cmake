# Type information (PEP 561): stubs of every extension module, read out of the built package, and the mark py.typed.
#
# It takes importing the modules, so a cross build makes none, and its wheel is not marked: type checkers ignore it. They
# also ignore wheels of LLVM 21 and older, where upstream has stubs of the core module in its tree and no generator.

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
add_custom_target(mlir_package_stubs ALL
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${_stubs}"
  COMMAND "${CMAKE_COMMAND}" -E env PYTHONDONTWRITEBYTECODE=1
          "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/make_stubs.py" "${_stubgen}" "${_package_dir}"
          "${_stubs}/mlir"
  COMMENT "Making type stubs"
  VERBATIM)
add_dependencies(mlir_package_stubs mlir_package)
# After upstream's files, one of which (_mlirExecutionEngine.pyi) lacks what the module has.
install(DIRECTORY "${_stubs}/mlir/" DESTINATION mlir COMPONENT mlir_package)
