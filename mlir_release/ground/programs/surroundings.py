"""Foreign programs: upstream's code, a build tool, a wheel, a smoke test. Who may start them, and what they see.

A command starts them only if it declares that it does (:func:`starting`). They get the variables that are listed here,
and those that a configuration names: no secret is recognised, because none is let through. This limits what foreign
code finds by looking. What it can do with what it finds otherwise (another process of the same user can be read) is
limited by the permissions of the job that runs it (docs/permissions.md).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_LISTED = """
# The system: where programs, libraries, temporary files and a user's settings are; languages and terminals.
PATH HOME USER LOGNAME SHELL SHLVL PWD OLDPWD _ HOSTNAME TZ TMPDIR TEMP TMP
LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME
TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE DEBIAN_FRONTEND
XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR XDG_DATA_DIRS XDG_CONFIG_DIRS
LD_LIBRARY_PATH LD_PRELOAD QEMU_LD_PREFIX QEMU_CPU WINEPREFIX WINEDEBUG WINEARCH
OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS CUDA_VISIBLE_DEVICES TF_CPP_MIN_LOG_LEVEL TF_ENABLE_ONEDNN_OPTS
# Proxies and certificates.
HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NIX_SSL_CERT_FILE GIT_SSL_CAINFO GIT_SSL_CAPATH
AWS_CA_BUNDLE NODE_EXTRA_CA_CERTS
# Compilers, linkers, and what LLVM's programs read.
CC CXX CPP FC CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS AR AS LD NM RANLIB STRIP OBJCOPY RC MT ARFLAGS
CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX GCC_COLORS
PKG_CONFIG_PATH PKG_CONFIG_LIBDIR SOURCE_DATE_EPOCH ZERO_AR_DATE
LLVM_SYMBOLIZER_PATH LLVM_PROFILE_FILE FILECHECK_OPTS
ASAN_OPTIONS ASAN_SYMBOLIZER_PATH LSAN_OPTIONS MSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS
# CMake, Ninja and make.
CMAKE_ARGS CMAKE_BUILD_PARALLEL_LEVEL CMAKE_BUILD_TYPE CMAKE_COLOR_DIAGNOSTICS CMAKE_CONFIGURATION_TYPES
CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_LINKER_LAUNCHER CMAKE_CXX_LINKER_LAUNCHER
CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_GENERATOR CMAKE_GENERATOR_INSTANCE CMAKE_GENERATOR_PLATFORM
CMAKE_GENERATOR_TOOLSET CMAKE_INSTALL_MODE CMAKE_OSX_ARCHITECTURES CMAKE_PREFIX_PATH CMAKE_PROGRAM_PATH
CMAKE_INCLUDE_PATH CMAKE_LIBRARY_PATH CMAKE_TLS_VERIFY CMAKE_TOOLCHAIN_FILE CTEST_PARALLEL_LEVEL
CTEST_OUTPUT_ON_FAILURE NINJA_STATUS MAKEFLAGS MFLAGS MAKELEVEL VERBOSE
# Compiler caches on this machine.
CCACHE_BASEDIR CCACHE_COMPILERCHECK CCACHE_COMPRESS CCACHE_COMPRESSLEVEL CCACHE_CONFIGPATH CCACHE_CPP2 CCACHE_DEBUG
CCACHE_DEPEND CCACHE_DIR CCACHE_DISABLE CCACHE_HARDLINK CCACHE_LOGFILE CCACHE_MAXSIZE CCACHE_NODIRECT
CCACHE_NOHASHDIR CCACHE_READONLY CCACHE_RECACHE CCACHE_SLOPPINESS CCACHE_STATSLOG CCACHE_TEMPDIR CCACHE_UMASK
SCCACHE_BASEDIRS SCCACHE_CACHE_SIZE SCCACHE_DIR SCCACHE_DIRECT SCCACHE_ERROR_LOG SCCACHE_IDLE_TIMEOUT
SCCACHE_IGNORE_SERVER_IO_ERROR SCCACHE_LOG SCCACHE_NO_DAEMON SCCACHE_RECACHE SCCACHE_SERVER_PORT SCCACHE_SERVER_UDS
# Python, pip, uv, build backends and cibuildwheel.
PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONUNBUFFERED PYTHONUTF8
PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX PYTHONHASHSEED PYTHONIOENCODING PYTHONWARNINGS PYTHONFAULTHANDLER
PYTHONMALLOC PYTHON_GIL __PYVENV_LAUNCHER__ VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT PYENV_VERSION
PIP_BREAK_SYSTEM_PACKAGES PIP_BUILD_CONSTRAINT PIP_CACHE_DIR PIP_CERT PIP_CONFIG_FILE PIP_CONSTRAINT
PIP_DEFAULT_TIMEOUT PIP_DISABLE_PIP_VERSION_CHECK PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_INDEX_URL PIP_NO_BINARY
PIP_NO_BUILD_ISOLATION PIP_NO_CACHE_DIR PIP_NO_INDEX PIP_NO_INPUT PIP_ONLY_BINARY PIP_PRE PIP_PREFER_BINARY
PIP_PROGRESS_BAR PIP_PROXY PIP_QUIET PIP_REQUIRE_VIRTUALENV PIP_RETRIES PIP_ROOT_USER_ACTION PIP_TIMEOUT
PIP_TRUSTED_HOST PIP_USE_DEPRECATED PIP_USE_FEATURE
UV_CACHE_DIR UV_CONCURRENT_BUILDS UV_CONCURRENT_DOWNLOADS UV_CONCURRENT_INSTALLS UV_CONSTRAINT UV_DEFAULT_INDEX
UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_HTTP_TIMEOUT UV_INDEX UV_INDEX_URL UV_INSECURE_HOST UV_LINK_MODE UV_NATIVE_TLS
UV_NO_CACHE UV_NO_INDEX UV_OFFLINE UV_PYTHON UV_PYTHON_DOWNLOADS UV_PYTHON_INSTALL_DIR UV_PYTHON_INSTALL_MIRROR
UV_PYTHON_PREFERENCE
ARCHFLAGS SKBUILD_CMAKE_ARGS _PYTHON_HOST_PLATFORM CIBW_CACHE_PATH CIBW_DEBUG_KEEP_CONTAINER
# Container engines.
CONTAINER_HOST CONTAINERS_CONF CONTAINERS_REGISTRIES_CONF CONTAINERS_STORAGE_CONF STORAGE_DRIVER STORAGE_OPTS
DOCKER_HOST DOCKER_CONTEXT DOCKER_CERT_PATH DOCKER_TLS_VERIFY DOCKER_DEFAULT_PLATFORM
# macOS.
SDKROOT DEVELOPER_DIR TOOLCHAINS MACOSX_DEPLOYMENT_TARGET DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH
DYLD_FRAMEWORK_PATH HOMEBREW_PREFIX COMMAND_MODE __CF_USER_TEXT_ENCODING
# Windows, and Visual Studio's own (vcvarsall.bat).
SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT OS APPDATA LOCALAPPDATA PROGRAMDATA ALLUSERSPROFILE PUBLIC
PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) COMMONPROGRAMW6432
USERPROFILE USERNAME HOMEDRIVE HOMEPATH COMPUTERNAME NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE
PROCESSOR_ARCHITEW6432 PROCESSOR_IDENTIFIER PROCESSOR_LEVEL PROCESSOR_REVISION PSMODULEPATH MSYSTEM
CL _CL_ LINK _LINK_ INCLUDE LIB LIBPATH EXTERNAL_INCLUDE IFCPATH DEVENVDIR DISTUTILS_USE_SDK MSSDK
VCINSTALLDIR VCIDEINSTALLDIR VCTOOLSINSTALLDIR VCTOOLSREDISTDIR VCTOOLSVERSION VSINSTALLDIR VISUALSTUDIOVERSION
VSCMD_ARG_APP_PLAT VSCMD_ARG_HOST_ARCH VSCMD_ARG_TGT_ARCH VSCMD_ARG_VCVARS_SPECTRE VSCMD_VER VSLANG
VS150COMNTOOLS VS160COMNTOOLS VS170COMNTOOLS VS180COMNTOOLS PLATFORM PREFERREDTOOLARCHITECTURE
WINDOWSSDKDIR WINDOWSSDKVERSION WINDOWSSDKLIBVERSION WINDOWSSDKBINPATH WINDOWSSDKVERBINPATH WINDOWSLIBPATH
WINDOWSSDK_EXECUTABLEPATH_X64 WINDOWSSDK_EXECUTABLEPATH_X86 UCRTVERSION UNIVERSALCRTSDKDIR EXTENSIONSDKDIR
NETFXSDKDIR FRAMEWORKDIR FRAMEWORKDIR64 FRAMEWORKVERSION FRAMEWORKVERSION64 FRAMEWORK40VERSION __VSCMD_PREINIT_PATH
# What a runner says of itself and of its job.
CI GITHUB_ACTIONS GITHUB_API_URL GITHUB_BASE_REF GITHUB_EVENT_NAME GITHUB_HEAD_REF GITHUB_JOB GITHUB_REF
GITHUB_REF_NAME GITHUB_REF_TYPE GITHUB_REPOSITORY GITHUB_REPOSITORY_OWNER GITHUB_RUN_ATTEMPT GITHUB_RUN_ID
GITHUB_RUN_NUMBER GITHUB_SERVER_URL GITHUB_SHA GITHUB_WORKFLOW GITHUB_WORKSPACE
RUNNER_ARCH RUNNER_DEBUG RUNNER_ENVIRONMENT RUNNER_NAME RUNNER_OS RUNNER_TEMP RUNNER_TOOL_CACHE RUNNER_WORKSPACE
IMAGEOS IMAGEVERSION AGENT_TOOLSDIRECTORY
# The toolkit's own.
MLIR_RELEASE_BUILD_ROOT MLIR_RELEASE_CACHE MLIR_RELEASE_LINKS MLIR_RELEASE_LOGS MLIR_RELEASE_SDK
MLIR_RELEASE_UPSTREAM_COMMIT MLIR_RELEASE_UPSTREAM_SOURCE MLIR_RELEASE_UPSTREAM_VERSION
"""

#: In upper case. Each is named singly: a prefix would let the next secret of a tool through. Not here, on purpose: what
#: leads to credentials (``DOCKER_CONFIG``, ``SSH_AUTH_SOCK``, ``NETRC``), the files through which a step changes the
#: job's later ones (``GITHUB_ENV``), the runner's services (``ACTIONS_…``), git's configuration, and compiler caches on
#: other machines (``SCCACHE_BUCKET``, ``CCACHE_REMOTE_STORAGE``).
ALLOWED = frozenset(name for line in _LISTED.splitlines() if not line.startswith("#") for name in line.split())

#: Of these, pip may see those with credentials in them where a person has it install something.
INDEXES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)

#: ``https://user:password@host``, or a token alone before the ``@``. ``ssh://git@host`` names a user only.
_CREDENTIALS = re.compile(r"(?<!\w)\w+://[^/\s:@]*:[^/\s@]*@|https?://[^/\s@]+@", re.IGNORECASE)

#: A name that can be shown: anything else may be made to mislead.
_PLAUSIBLE = re.compile(r"[A-Za-z_][A-Za-z0-9_()]{0,63}")

#: How many names of withheld variables a message shows.
_SHOWN = 12

#: See :func:`also_pass`.
_named: set[str] = set()

#: What the running command has declared; see :func:`starting`. All threads of the process share it.
_declared: list[str] = []
#: The exit code of a process that was told to end: no thread of it starts anything more.
_ending: list[int] = []


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Let a block start the foreign programs that a command has declared, and no others. SIGTERM ends all of them.

    Code that runs in no such block, because another program uses the toolkit as a library, may start any.

    :param what: for people: ``upstream's build``; empty: it may start none
    """
    _declared.append(what)
    handled = bool(what) and threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _end) if handled else None
    try:
        yield
    finally:
        if handled:
            signal.signal(signal.SIGTERM, before)
        _declared.pop()


def _end(number: int, _: object) -> NoReturn:
    """End what this process has started, then itself. A terminal's Ctrl+C reaches all of it, SIGTERM one process."""
    _ending.append(128 + number)
    with suppress(ImportError):
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.terminate()
    sys.exit(128 + number)


def refuse_undeclared(program: object) -> None:
    """Every way to start a program asks this, but for git's. :raises RuntimeError: the command has declared nothing"""
    if _ending:
        sys.exit(_ending[0])
    if _declared and not _declared[-1]:
        raise RuntimeError(f"{program} would run in a command that does not declare that it starts foreign programs")


def also_pass(names: Iterable[str]) -> None:
    """Let foreign programs of this process see these variables, too: those that ``targets.toml`` names."""
    _named.update(names)


def foreign_environment(environ: Mapping[str, str] | None = None, *, named: Collection[str] = ()) -> dict[str, str]:
    """The variables that a foreign program gets: those of :data:`ALLOWED`, and those that are named.

    An address that carries credentials (``https://user:password@…`` in ``PIP_INDEX_URL`` or ``HTTPS_PROXY``) is
    passed only if its variable is named.

    :param environ: default: this process's
    :param named: names that a configuration gives
    """
    given = os.environ if environ is None else environ
    asked = _named.union(named)
    found = {}
    for name, value in given.items():
        without_scheme = name.upper().endswith("_PROXY") and "://" not in value
        address = f"http://{value}" if without_scheme else value
        if name in asked or (name.upper() in ALLOWED and not has_credentials(address)):
            found[name] = value
    return found


def has_credentials(text: str) -> bool:
    """Whether an address in ``text`` carries a password or a token."""
    return _CREDENTIALS.search(text) is not None


def withheld(
    environ: Mapping[str, str] | None = None,
    *,
    named: Collection[str] = (),
    place: str = "environment of [release] in targets.toml",
) -> str:
    """The end of a remedy for a foreign program that failed: the names (no values) of what it did not get.

    ``; variables withheld from the program: A, B (12 more); name …``; empty if it got all. Parameters: see
    :func:`foreign_environment`.

    :param place: where a person can name variables that are to be passed
    """
    given = os.environ if environ is None else environ
    hidden = sorted(given.keys() - foreign_environment(given, named=named).keys())
    if not hidden:
        return ""
    shown = [name for name in hidden if _PLAUSIBLE.fullmatch(name)][:_SHOWN]
    more = f" ({len(hidden) - len(shown)} more)" if len(hidden) > len(shown) else ""
    names = ", ".join(shown) or "their names can't be shown"
    return f"; variables withheld from the program: {names}{more}; name in {place} those that it needs"
