# The extension modules: one precompiled header for all, since reading headers is most of their compile time.

function(mlir_release_tune_modules package)
  if(MLIR_RELEASE_PLAIN)
    return()
  endif()
  get_property(_targets DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
  set(_modules ${_targets})
  list(FILTER _modules INCLUDE REGEX "^${package}\\.extension\\..*\\.dso$")
  set(_support ${_targets})
  list(FILTER _support INCLUDE REGEX "^${package}\\.extension\\..*\\.so$")

  # One run path from the beginning: the folder of the build would leave its length in the file, even when replaced.
  set_target_properties(${_modules} ${_support} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)

  if(MSVC)
    return()
  endif()
  foreach(_module IN LISTS _modules)
    # The macro that CMake defines for each shared library differs, which would make the precompiled header useless.
    set_target_properties(${_module} PROPERTIES DEFINE_SYMBOL "")
    target_compile_options(${_module} PRIVATE -Os)  # as nanobind does by itself, pybind11 does not
  endforeach()
  # nanobind's own sources are made to be compiled as one; apart, they cost three times as much.
  foreach(_kind IN ITEMS nanobind nanobind-ft nanobind-abi3)
    if(TARGET ${_kind}-${MLIR_BINDINGS_PYTHON_NB_DOMAIN})
      set_target_properties(${_kind}-${MLIR_BINDINGS_PYTHON_NB_DOMAIN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
  endforeach()

  list(GET _modules 0 _first)
  mlir_release_add_precompiled_header(${package}_pch ${_first})
  foreach(_module IN LISTS _modules)
    target_precompile_headers(${_module} REUSE_FROM ${package}_pch)
  endforeach()

  # The support library (LLVM 22 and later) is no extension module: it exports C++ classes, and is compiled without the
  # modules' flags. It gets the same optimization for size, and a header of its own.
  foreach(_library IN LISTS _support)
    set_target_properties(${_library} PROPERTIES DEFINE_SYMBOL "")
    target_compile_options(${_library} PRIVATE -Os -fno-stack-protector)
    target_precompile_headers(${_library} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src/${MLIR_RELEASE_PCH}")
    get_target_property(_linked ${_library} LINK_LIBRARIES)
    if("LLVMSupport" IN_LIST _linked)  # before LLVM 23, and so does each module that links this library
      foreach(_target IN ITEMS ${_library} ${_modules})
        mlir_release_hide_archives(${_target} LLVMSupport LLVMDemangle)
      endforeach()
    endif()
  endforeach()
endfunction()

if(COMMAND nanobind_add_module)
  set(MLIR_RELEASE_PCH precompiled_nanobind.h)
else()
  set(MLIR_RELEASE_PCH precompiled_pybind11.h)
endif()

# A library of one empty file, with the flags of `like`, that owns the precompiled header.
function(mlir_release_add_precompiled_header name like)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_SOURCE_DIR}/src/empty.cpp")
  foreach(_property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES COMPILE_FEATURES CXX_VISIBILITY_PRESET
          VISIBILITY_INLINES_HIDDEN POSITION_INDEPENDENT_CODE CXX_STANDARD)
    get_target_property(_value ${like} ${_property})
    if(_value)
      set_property(TARGET ${name} PROPERTY ${_property} "${_value}")
    endif()
  endforeach()
  # Of what it links to: what shapes its compile command, not the sources that upstream's groups would add.
  get_target_property(_libraries ${like} LINK_LIBRARIES)
  foreach(_library IN LISTS _libraries)
    if(TARGET ${_library})
      target_compile_definitions(${name} PRIVATE $<TARGET_PROPERTY:${_library},INTERFACE_COMPILE_DEFINITIONS>)
      target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:${_library},INTERFACE_COMPILE_OPTIONS>)
      target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:${_library},INTERFACE_INCLUDE_DIRECTORIES>)
      target_include_directories(${name} SYSTEM PRIVATE
        $<TARGET_PROPERTY:${_library},INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>)
    endif()
  endforeach()
  target_precompile_headers(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src/${MLIR_RELEASE_PCH}")
endfunction()
