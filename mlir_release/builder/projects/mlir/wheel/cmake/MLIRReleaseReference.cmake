# mlir/_reference.json: what the sources say of each pass, and of operations that no Python module describes. Pages that
# describe the API are drawn from a wheel alone, where nobody has the sources, and nothing of the wheel is executed.

set(_tblgen "${MLIR_TABLEGEN_EXE}")
if(TARGET "${_tblgen}")
  set(_tblgen "$<TARGET_FILE:${_tblgen}>")
endif()
set(_reference "${CMAKE_CURRENT_BINARY_DIR}/_reference.json")
add_custom_command(OUTPUT "${_reference}"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/make_reference.py" "${_tblgen}"
          "${MLIR_SOURCE_DIR}" "${MLIR_RELEASE_SDK}/include" "${_reference}"
  DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/make_reference.py"
  COMMENT "Describing passes"
  VERBATIM)
add_custom_target(mlir_package_reference ALL DEPENDS "${_reference}")
install(FILES "${_reference}" DESTINATION mlir COMPONENT mlir_package)
