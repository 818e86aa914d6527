# An extension works with the one version that it was built with.
include("${CMAKE_CURRENT_LIST_DIR}/facts.cmake")
set(PACKAGE_VERSION "${MLIRExtension_VERSION}")
if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
