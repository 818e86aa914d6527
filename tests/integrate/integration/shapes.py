"""The pins of real projects in their shape: paths, names and layout are theirs, commits and digests are made up.

``PIN`` stands for the pinned commit, ``SHORT`` for its first nine digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DIGEST = "0" * 64
OTHER = "9" * 40

LLVM = "https://github.com/llvm/llvm-project.git"
STABLEHLO = "https://github.com/openxla/stablehlo.git"
TORCH_MLIR = "https://github.com/llvm/torch-mlir.git"
XLA = "https://github.com/openxla/xla.git"

WORKSPACE = f'''"""Provides the repository macro to import LLVM."""

def repo(name):
    """Imports LLVM."""
    LLVM_COMMIT = "PIN"
    LLVM_SHA256 = "{DIGEST}"

    tf_http_archive(
        name = name,
        sha256 = LLVM_SHA256,
        strip_prefix = "llvm-project-{{commit}}".format(commit = LLVM_COMMIT),
    )
'''

DEPS = f'''def third_party_deps():
    if use_local_llvm_repo():
        pass
    else:
        LLVM_COMMIT = "PIN"
        LLVM_SHA256 = "{DIGEST}"
        http_archive(name = "llvm-raw", sha256 = LLVM_SHA256)

    if not use_local_torch_mlir_repo():
        TORCH_MLIR_COMMIT = "PIN"
        TORCH_MLIR_SHA256 = "{DIGEST}"

    STABLEHLO_COMMIT = "PIN"
    STABLEHLO_SHA256 = "{DIGEST}"
    http_archive(strip_prefix = "googletest-{OTHER}")
'''

JSON = """{
  "commits" : [
    {
      "name" : "llvm",
      "site" : "github",
      "subrepo" : "llvm/llvm-project",
      "branch" : "main",
      "subdir" : "third_party/llvm",
      "commit" : "PIN"
    },
    {
      "name" : "SPIRV-Headers",
      "site" : "github",
      "subrepo" : "KhronosGroup/SPIRV-Headers",
      "branch" : "main",
      "commit" : "9999999999999999999999999999999999999999"
    }
  ]
}
"""

INFO = f"""{{
  "llvm_hash": "PIN",
  "build_number": 1,
  "sha256sum": {{
    "almalinux-arm64": "{DIGEST}",
    "ubuntu-x64": "{DIGEST}"
  }}
}}
"""

PYPROJECT = """[project]
name = "lighthouse"
dependencies = [
    "mlir-python-bindings==20260910+SHORT",
    "pyyaml>=6.0",
]
"""

EXTENSIONS = """def _llvm_deps_impl(_):
    LLVM_COMMIT = "PIN"

    new_git_repository(
        name = "llvm-raw",
        commit = LLVM_COMMIT,
        remote = "https://github.com/llvm/llvm-project.git",
    )
"""

REVISION = f"""# To update XLA to a new revision,
# a) update XLA_COMMIT to the new git commit hash
# and update XLA_SHA256 with the result.
XLA_COMMIT = "PIN"
XLA_SHA256 = "{DIGEST}"
"""

CMAKE = """include(FetchContent)
FetchContent_Declare(
  llvm
  GIT_REPOSITORY https://github.com/llvm/llvm-project.git
  GIT_TAG PIN
)
"""


CLONE_MLIR = """git clone -n https://github.com/llvm/llvm-project.git
# Check out a specific branch that is known to work with ONNX-MLIR.
cd llvm-project && git checkout PIN && cd ..
"""

CLONE_LLVM = """# LLVM is sourced from the ROCm fork rather than upstream llvm/llvm-project, see
# https://github.com/llvm/llvm-project/commit/9999999999999999999999999999999999999999
export commithash=PIN
target_dir=llvm
git clone --depth 1 https://github.com/ROCm/llvm-project.git $target_dir
"""

TOOLCHAIN = f"""set(FLATBUFFERS_VERSION "{OTHER}")
set(LLVM_PROJECT_VERSION "PIN")
set(STABLEHLO_VERSION "PIN")
set(SHARDY_VERSION "PIN")
"""

DOCKER = f"""FROM ubuntu:noble
RUN git clone https://github.com/llvm/llvm-project.git \\
    && git -C llvm-project checkout PIN
RUN git clone https://github.com/onnx/onnx.git && git -C onnx checkout {OTHER}
"""

MODULE_LOCK = '"urls": ["https://github.com/llvm/llvm-project/archive/PIN.tar.gz"]\n'

SOURCE = f"# https://github.com/llvm/llvm-project/blob/{OTHER}/mlir/IR.h\nsha = 'llvm-project@{OTHER}'\n"


@dataclass(frozen=True)
class Shape:
    """A project: its files, and its submodules by path, each with its URL; and what ``init`` is to find."""

    name: str
    pins: dict[str, str]  #: upstream's title -> path of the pin
    copies: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  #: title -> file and value of each copy
    files: dict[str, str] = field(default_factory=dict)
    submodules: dict[str, str] = field(default_factory=dict)
    branch: str = ""  #: of the submodules
    told: tuple[str, ...] = ()  #: other lines that say the pin, and are no copies


SHAPES = (
    Shape(
        "openxla/stablehlo",
        {"LLVM": "build_tools/llvm_version.txt"},
        {"LLVM": [("third_party/llvm/workspace.bzl", "commit"), ("third_party/llvm/workspace.bzl", "sha256")]},
        {"build_tools/llvm_version.txt": "PIN\n", "third_party/llvm/workspace.bzl": WORKSPACE},
    ),
    Shape(
        "openxla/xla",
        {"LLVM": "third_party/llvm/workspace.bzl"},
        {"LLVM": [("third_party/llvm/workspace.bzl", "sha256")]},
        {"third_party/llvm/workspace.bzl": WORKSPACE},
    ),
    Shape(
        "jax-ml/jax",
        {"xla": "third_party/xla/revision.bzl"},
        {"xla": [("third_party/xla/revision.bzl", "sha256")]},
        {"third_party/xla/revision.bzl": REVISION},
    ),
    Shape("triton-lang/triton", {"LLVM": "cmake/llvm-hash.txt"}, files={"cmake/llvm-hash.txt": "PIN\n"}),
    Shape("triton-lang/newer", {"LLVM": "cmake/llvm-info.json"}, files={"cmake/llvm-info.json": INFO}),
    Shape("google/heir", {"LLVM": "bazel/extensions.bzl"}, files={"bazel/extensions.bzl": EXTENSIONS}),
    Shape(
        "cruise-automation/mlir-tcp",
        {"LLVM": "deps.bzl", "stablehlo": "deps.bzl", "torch-mlir": "deps.bzl"},
        {name: [("deps.bzl", "sha256")] for name in ("LLVM", "stablehlo", "torch-mlir")},
        {"deps.bzl": DEPS},
    ),
    Shape("google/clspv", {"LLVM": "deps.json"}, files={"deps.json": JSON}),
    Shape(
        "llvm/torch-mlir",
        {"LLVM": "externals/llvm-project", "stablehlo": "externals/stablehlo"},
        submodules={"externals/llvm-project": LLVM, "externals/stablehlo": STABLEHLO},
    ),
    Shape(
        "iree-org/iree",
        {
            "LLVM": "third_party/llvm-project",
            "stablehlo": "third_party/stablehlo",
            "torch-mlir": "third_party/torch-mlir",
        },
        submodules={
            "third_party/llvm-project": "https://github.com/iree-org/llvm-project.git",
            "third_party/stablehlo": "https://github.com/iree-org/stablehlo.git",
            "third_party/torch-mlir": "https://github.com/iree-org/torch-mlir.git",
        },
    ),
    Shape("llvm/circt", {"LLVM": "llvm"}, submodules={"llvm": LLVM}),
    Shape(
        "PennyLaneAI/catalyst",
        {"LLVM": "mlir/llvm-project", "stablehlo": "mlir/stablehlo"},
        {"LLVM": [(".dep-versions", "commit")], "stablehlo": [(".dep-versions", "tag")]},
        {".dep-versions": "jax=0.7.1\nstablehlo=PIN\nllvm=PIN\nenzyme=v0.0.238\n"},
        {"mlir/llvm-project": LLVM, "mlir/stablehlo": STABLEHLO},
    ),
    Shape("llvm/lighthouse", {"LLVM": "pyproject.toml"}, files={"pyproject.toml": PYPROJECT}),
    Shape(
        "onnx/onnx-mlir",
        {"LLVM": "utils/clone-mlir.sh", "stablehlo": "third_party/stablehlo"},
        files={
            "utils/clone-mlir.sh": CLONE_MLIR,
            "docs/Build.md": "\ncd llvm-project && git checkout PIN && cd ..\n",
            "utils/pages.py": SOURCE,
        },
        submodules={"third_party/stablehlo": STABLEHLO},
        told=("docs/Build.md:2",),
    ),
    Shape(
        "tenstorrent/tt-mlir",
        {"LLVM": "env/CMakeLists.txt", "stablehlo": "env/CMakeLists.txt", "shardy": "env/CMakeLists.txt"},
        files={"env/CMakeLists.txt": TOOLCHAIN},
    ),
    Shape(
        "triton-lang/triton-cpu",
        {"LLVM": "cmake/llvm-build-info.json"},
        {"LLVM": [("cmake/llvm-info.json", "commit")]},
        {"cmake/llvm-build-info.json": INFO, "cmake/llvm-info.json": INFO},
    ),
    Shape("Xilinx/mlir-air", {"LLVM": "utils/clone-llvm.sh"}, files={"utils/clone-llvm.sh": CLONE_LLVM}),
    Shape("microsoft/triton-shared", {"triton": "triton-hash.txt"}, files={"triton-hash.txt": "PIN\n"}),
    Shape(
        "google/xls",
        {"LLVM": "dependency_support/llvm/extension.bzl"},
        files={"dependency_support/llvm/extension.bzl": EXTENSIONS, "MODULE.bazel.lock": MODULE_LOCK},
        told=("MODULE.bazel.lock:1",),
    ),
    Shape("someone/released", {"LLVM": "llvm"}, submodules={"llvm": LLVM}, branch="release/22.x"),
    Shape(
        "someone/same",
        {"LLVM": "llvm"},
        {"LLVM": [("ci/Dockerfile", "commit")]},
        {"ci/Dockerfile": DOCKER, "CHANGES": "Built with LLVM PIN.\n"},
        {"llvm": LLVM},
        branch=".",
        told=("CHANGES:1",),
    ),
    Shape("someone/cmake", {"LLVM": "third_party/CMakeLists.txt"}, files={"third_party/CMakeLists.txt": CMAKE}),
)
