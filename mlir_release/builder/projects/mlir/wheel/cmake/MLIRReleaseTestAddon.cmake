# What upstream's binding tests need beyond the package: a test dialect. It is not part of what is shipped.
#
# The dialect is C++ and must share MLIR's types with the rest, which the shipped library hides. So the add-on has its own
# build of that library, of the same objects and with the same settings, with the test dialect in it. It goes over an
# installed package, for the few tests that use the dialect; all others are to be run on the package as it is shipped.

set(CMAKE_INCLUDE_CURRENT_DIR ON)  # as in upstream's own build
add_subdirectory(upstream/mlir/test/python upstream_tests EXCLUDE_FROM_ALL)
set(CMAKE_INCLUDE_CURRENT_DIR OFF)

set(_addon_dir "${CMAKE_CURRENT_BINARY_DIR}/addon/mlir")
mlir_release_add_c_api(mlir_test_c_api mlir_test_addon "${_addon_dir}" ${_package_sources} MLIRPythonTestSources)
add_mlir_python_modules(mlir_test_addon
  ROOT_PREFIX "${_addon_dir}"
  INSTALL_PREFIX mlir
  DECLARED_SOURCES MLIRPythonTestSources
  COMMON_CAPI_LINK_LIBS mlir_test_c_api)

# LLVM 22 and later keep the bindings' classes in a library of the package, which the test module uses, too.
get_property(_targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(_support ${_targets})
list(FILTER _support INCLUDE REGEX "^mlir_package\\.extension\\..*\\.so$")
set(_test_modules ${_targets})
list(FILTER _test_modules INCLUDE REGEX "^mlir_test_addon\\.extension\\..*\\.dso$")
foreach(_module IN LISTS _test_modules)
  if(_support)
    target_link_libraries(${_module} PRIVATE ${_support})
  endif()
endforeach()
