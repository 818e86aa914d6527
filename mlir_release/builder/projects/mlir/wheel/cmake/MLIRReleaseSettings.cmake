# How things are compiled and linked: small, quick, the same bytes wherever they are built.

include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
include(CheckCXXCompilerFlag)

if(MLIR_RELEASE_PLAIN)
  return()
endif()

# Link-time optimization takes minutes and doubles the size of the modules (pybind11 turns it on by itself).
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)

# -O2: what costs time in the bindings is calls into the C API, which is compiled already.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

# No path of this machine in what is shipped: two builds in different folders give the same bytes.
check_cxx_compiler_flag("-ffile-prefix-map=/a=/b" MLIR_RELEASE_HAS_PREFIX_MAP)
if(MLIR_RELEASE_HAS_PREFIX_MAP)
  add_compile_options(
    "-ffile-prefix-map=${CMAKE_BINARY_DIR}=/build"
    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=/mlir"
    "-ffile-prefix-map=${MLIR_RELEASE_SDK}=/sdk")
endif()
if(MSVC)
  add_compile_options(/Brepro)
  add_link_options(/Brepro)
endif()

# lld, where it is: it links the C API library in 2 s instead of 20, and folds identical functions. The SDK brings one.
set(MLIR_RELEASE_LLD OFF)
if(NOT MSVC AND NOT APPLE)
  set(_lld "${MLIR_RELEASE_TOOLS}/bin/ld.lld")
  execute_process(COMMAND "${_lld}" --version OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE _lld_result)
  if(_lld_result EQUAL 0)
    set(MLIR_RELEASE_LINKER_FLAGS "-B${MLIR_RELEASE_TOOLS}/bin" -fuse-ld=lld)
  else()
    set(MLIR_RELEASE_LINKER_FLAGS -fuse-ld=lld)  # perhaps the machine has one that runs
  endif()
  # Not check_linker_flag, which would check without the flags that choose the linker.
  set(CMAKE_REQUIRED_LINK_OPTIONS ${MLIR_RELEASE_LINKER_FLAGS} "LINKER:--icf=all")
  check_cxx_source_compiles("int main() { return 0; }" MLIR_RELEASE_HAS_LLD)
  list(APPEND CMAKE_REQUIRED_LINK_OPTIONS "LINKER:--bp-compression-sort=both")  # lld >= 21
  check_cxx_source_compiles("int main() { return 0; }" MLIR_RELEASE_HAS_COMPRESSION_SORT)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(MLIR_RELEASE_HAS_LLD)
    set(MLIR_RELEASE_LLD ON)
    add_link_options(${MLIR_RELEASE_LINKER_FLAGS})
  endif()
endif()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_link_options("LINKER:--gc-sections" "LINKER:-O2" "LINKER:--build-id=none")
  # Relocations in the packed form (DT_RELR) take a tenth of the room, but glibc before 2.36 does not know them. The
  # honest flag makes the library ask for a glibc that does, so that its tag can be checked; lld's own
  # --pack-dyn-relocs=relr does not, and auditwheel would not see it.
  if(MLIR_RELEASE_GLIBC AND MLIR_RELEASE_GLIBC VERSION_GREATER_EQUAL 2.36)
    check_linker_flag(CXX "LINKER:-z,pack-relative-relocs" MLIR_RELEASE_HAS_RELR)
    if(MLIR_RELEASE_HAS_RELR)
      add_link_options("LINKER:-z,pack-relative-relocs")
    endif()
  endif()
elseif(APPLE)
  add_link_options("LINKER:-dead_strip")
endif()

# ccache: paths inside this project relative, so that a build in another folder finds what this one made.
foreach(_language C CXX)
  if(CMAKE_${_language}_COMPILER_LAUNCHER MATCHES "(^|/)ccache(\\.exe)?$")
    set(CMAKE_${_language}_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_ctime,include_file_mtime
      "${CMAKE_${_language}_COMPILER_LAUNCHER}")
  endif()
endforeach()
