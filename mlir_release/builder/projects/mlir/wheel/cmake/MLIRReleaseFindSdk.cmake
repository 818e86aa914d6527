# The SDK to build against: what MLIR_RELEASE_SDK names, else the installed distribution mlir-sdk.
#
# mlir-sdk is no build requirement of this project: it is not on PyPI, where anybody may take its name, and an isolated
# build would install theirs. So it is installed by whoever builds, and the build sees it without isolation.

file(READ "${CMAKE_CURRENT_SOURCE_DIR}/mlir/_release.json" _release)
string(JSON _tag GET "${_release}" tag)
string(JSON _revision GET "${_release}" revision)

if(NOT MLIR_RELEASE_SDK)
  find_package(Python COMPONENTS Interpreter REQUIRED)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import mlir_sdk; print(mlir_sdk.root())"
    OUTPUT_VARIABLE MLIR_RELEASE_SDK OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

if(NOT EXISTS "${MLIR_RELEASE_SDK}/sdk.json" AND NOT EXISTS "${MLIR_RELEASE_SDK}/_mlir_sdk.json")
  if(MLIR_RELEASE_SDK)
    set(_found "There is none at '${MLIR_RELEASE_SDK}'.")
  else()
    set(_found "None is installed, or the build is isolated and does not see it.")
  endif()
  message(FATAL_ERROR
    "[source-needs-sdk] MLIR's bindings are built against an SDK of MLIR, of ${_tag}. ${_found}\n"
    "To do: install a wheel of the bindings instead, if there is one. Or take the address of mlir-sdk, with its digest, "
    "from the page of the release ${_tag}; it is not on PyPI, and what is there under its name is not ours:\n"
    "  pip install 'mlir-sdk @ ADDRESS'  and what pyproject.toml has as [build-system] requires\n"
    "  pip install --no-build-isolation THIS-FILE\n"
    "An SDK that was made otherwise is named by the environment variable MLIR_RELEASE_SDK.")
endif()

if(EXISTS "${MLIR_RELEASE_SDK}/_mlir_sdk.json")
  file(READ "${MLIR_RELEASE_SDK}/_mlir_sdk.json" _sdk)
  string(JSON _sdk_revision GET "${_sdk}" revision)
  if(NOT _sdk_revision STREQUAL _revision)
    string(JSON _sdk_version GET "${_sdk}" version)
    message(FATAL_ERROR
      "[source-other-sdk] The installed mlir-sdk ${_sdk_version} is of another revision than these sources.\n"
      "  where: ${MLIR_RELEASE_SDK}\n"
      "  why: it is LLVM at ${_sdk_revision}, and these sources are of ${_revision}\n"
      "To do: install the mlir-sdk of the release ${_tag}.")
  endif()
endif()
