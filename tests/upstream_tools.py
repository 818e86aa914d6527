"""What upstream's own tests of MLIR run, against what ``sdk build`` makes.

:data:`WANTED` was read off the trees of llvmorg-22.1.8 and llvmorg-23.1.1 by :func:`read_wanted`; an end-to-end test
reads a real tree again and compares.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: ``MLIR_TEST_DEPENDS`` of mlir/test/CMakeLists.txt and the tools of mlir/test/lit.cfg.py, in either version.
WANTED = frozenset((
    "FileCheck", "count", "llc", "lli", "llvm-strings", "not", "split-file", "yaml2obj",
    "mlir-capi-execution-engine-test", "mlir-capi-global-constructors-test", "mlir-capi-ir-test",
    "mlir-capi-irdl-test", "mlir-capi-llvm-test", "mlir-capi-pass-test", "mlir-capi-pdl-test",
    "mlir-capi-quant-test", "mlir-capi-rewrite-test", "mlir-capi-smt-test", "mlir-capi-sparse-tensor-test",
    "mlir-capi-transform-interpreter-test", "mlir-capi-transform-test", "mlir-capi-translation-test",
    "mlir-linalg-ods-yaml-gen", "mlir-lsp-server", "mlir-minimal-opt", "mlir-opt", "mlir-pdll",
    "mlir-pdll-lsp-server", "mlir-query", "mlir-reduce", "mlir-rewrite", "mlir-runner", "mlir-tblgen",
    "mlir-transform-opt", "mlir-translate", "tblgen-lsp-server", "tblgen-to-irdl",
    "mlir_apfloat_wrappers", "mlir_arm_runner_utils", "mlir_arm_sme_abi_stubs", "mlir_async_runtime",
    "mlir_c_runner_utils", "mlir_cuda_runtime", "mlir_float16_utils", "mlir_levelzero_runtime", "mlir_rocm_runtime",
    "mlir_runner_utils", "mlir_spirv_cpu_runtime", "mlir_sycl_runtime", "mlir_vulkan_runtime",
    "MLIRCAPIArith", "MLIRPythonModules", "MLIRUnitTests", "spirv-as", "spirv-val",
    "toyc-ch1", "toyc-ch2", "toyc-ch3", "toyc-ch4", "toyc-ch5", "toyc-ch6", "toyc-ch7",
    "transform-opt-ch2", "transform-opt-ch3", "transform-opt-ch4",
))  # fmt: skip

#: Wanted by upstream and not built, as patterns, each with the reason.
WAIVED = {
    "mlir-capi-*-test": "upstream installs none of them; known_failures.toml lists CAPI/*.c",
    "mlir-minimal-opt*": "an example (LLVM_BUILD_EXAMPLES); its tests are unsupported without",
    "mlir-transform-opt": "an example (LLVM_BUILD_EXAMPLES); its tests are unsupported without",
    "toyc-ch*": "an example (LLVM_BUILD_EXAMPLES); its tests are unsupported without",
    "transform-opt-ch*": "an example (LLVM_BUILD_EXAMPLES); its tests are unsupported without",
    "mlir_cuda_runtime": "needs CUDA (MLIR_ENABLE_CUDA_RUNNER)",
    "mlir_levelzero_runtime": "needs Level Zero (MLIR_ENABLE_LEVELZERO_RUNNER)",
    "mlir_rocm_runtime": "needs ROCm (MLIR_ENABLE_ROCM_RUNNER)",
    "mlir_spirv_cpu_runtime": "needs MLIR_ENABLE_SPIRV_CPU_RUNNER, which no test of this machine asks for",
    "mlir_sycl_runtime": "needs SYCL (MLIR_ENABLE_SYCL_RUNNER)",
    "mlir_vulkan_runtime": "needs Vulkan (MLIR_ENABLE_VULKAN_RUNNER)",
    "spirv-*": "SPIR-V's own tools (LLVM_INCLUDE_SPIRV_TOOLS_TESTS)",
    "MLIRCAPIArith": "a library, in mlir-libraries; only upstream's standalone example names it",
    "MLIRPythonModules": "the bindings are tested as wheels have them",
    "MLIRUnitTests": "C++ unit tests, not tests of mlir/test",
}

_DEPENDS = re.compile(r"MLIR_TEST_DEPENDS\s([^)]*)\)")
_TOOL = re.compile(r'(?:^ +|(?:add_runtime|ToolSubst)\()"(?P<name>[A-Za-z][\w-]*)"[,)]', re.MULTILINE)


def read_wanted(root: Path) -> set[str]:
    """What the tests of the llvm-project tree at ``root`` run."""
    listed = (root / "mlir" / "test" / "CMakeLists.txt").read_text(encoding="utf-8")
    wanted = {word for match in _DEPENDS.finditer(listed) for word in match[1].split() if "$" not in word}
    settings = (root / "mlir" / "test" / "lit.cfg.py").read_text(encoding="utf-8")
    tools = settings[settings.index("\ntools = [") : settings.index("add_tool_substitutions")]
    return wanted | {match["name"] for match in _TOOL.finditer(tools)}


def not_built(wanted: Iterable[str], built: Iterable[str]) -> list[str]:
    """Those of ``wanted`` that are neither among ``built`` nor waived."""
    missing = set(wanted) - set(built)
    return sorted(name for name in missing if not any(fnmatch(name, pattern) for pattern in WAIVED))
