# What a shared library exports. The C API is the interface of the package; everything else stays inside, so that the
# linker can drop what the C API does not reach: a third of the library, and 193,954 names out of 195,390.
#
# On Windows nothing is needed: a DLL exports what it declares, and of its archives nothing.

# mlir_release_hide_all_but_c_api(target)
# Every name of the C API begins with "mlir", which Mach-O spells "_mlir".
function(mlir_release_hide_all_but_c_api target)
  if(APPLE)
    target_link_options(${target} PRIVATE "LINKER:-exported_symbol,_mlir*")
  elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE "LINKER:--exclude-libs,ALL")
  endif()
endfunction()

# mlir_release_hide_archives(target archives...)
# The library's own names are its interface; those of the static libraries that it is linked with are not.
function(mlir_release_hide_archives target)
  if(APPLE)
    # By the full name of the file, as ld64 wants it, and ahead of CMake's own mention of the same file: the linker
    # takes what it lacks from the first that has it.
    foreach(_archive IN LISTS ARGN)
      target_link_options(${target} PRIVATE "LINKER:-load_hidden,$<TARGET_FILE:${_archive}>")
    endforeach()
  elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE "LINKER:--exclude-libs,ALL")
  endif()
endfunction()
