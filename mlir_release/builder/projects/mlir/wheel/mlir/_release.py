"""Which build of MLIR this is: ``python -m mlir._release``, or ``mlir._release.INFO``.

Runs on the oldest Python that the bindings support.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path

#: The content of ``mlir/_release.json``.
INFO = json.loads(Path(__file__).with_name("_release.json").read_text(encoding="utf-8"))

TAG = INFO["tag"]
REVISION = INFO["revision"]
LLVM_VERSION = INFO["llvm_version"]
DISTRIBUTION = INFO["distribution"]
PROFILE = INFO["profile"]
TARGET = INFO["target"]
TOOLKIT_VERSION = INFO["toolkit_version"]

#: The learned policy for evictions in the register allocator that compiled code gets; None: LLVM's own heuristic.
REGALLOC_MODEL = INFO.get("regalloc_model")

#: Whether LLVM's assertions are on: wrong uses of its API end the process with a message, and all is slower.
ASSERTIONS = INFO.get("assertions", False)

#: The SDK that it was built with as a requirement, ``mlir-sdk==20261123.1``; None: its release makes no wheel of it.
SDK_WHEEL = INFO.get("sdk_wheel")

#: What llvm/eudsl and conda-forge call their builds of the bindings. PyPI's distribution of this name has no files.
FOREIGN = "mlir-python-bindings"


def warn_if_mixed() -> None:
    """Warn if several distributions have the module ``mlir.ir``, in the folder that this one is in.

    They have ``mlir`` in their names: not every import reads all that is installed. Conda lists its packages in
    ``conda-meta``.
    """
    found = {DISTRIBUTION}
    try:
        for record in Path(__file__).resolve().parent.parent.glob("*mlir*.dist-info/RECORD"):
            if re.search("^mlir/ir.py,", record.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
                found.add(record.parent.name.partition("-")[0].replace("_", "-"))
    except OSError:  # a folder that may not be read
        pass
    if any(Path(sys.prefix, "conda-meta").glob(f"{FOREIGN}-*.json")):
        found.add(FOREIGN)
    if len(found) > 1:
        warnings.warn(
            f"{' and '.join(sorted(found))} are installed in one environment, but they are builds of the same package "
            f"and overwrite each other's files; what is loaded now is a mixture. Uninstall all of them (pip uninstall "
            f"{' '.join(sorted(found))}), then install one.",
            RuntimeWarning,
            stacklevel=2,
        )


def set_llvm_option(name: str, value: str) -> None:
    """Set an option of LLVM's for this process, as ``-name=value`` does for its programs.

    Only builds with a learned policy can: ``set_llvm_option("regalloc-enable-advisor", "default")`` turns it off.

    :raises ValueError: LLVM has no such option, or no such value of it
    :raises RuntimeError: this build has no learned policy
    """
    import ctypes  # not each use of the bindings pays for it

    if REGALLOC_MODEL is None:
        raise RuntimeError("this build of MLIR can't set LLVM's options: it has no learned policy")
    set_option = ctypes.CDLL(_c_api()).mlirReleaseSetLLVMOption
    set_option.restype = ctypes.c_bool
    if not set_option(name.encode(), value.encode()):
        raise ValueError(f"LLVM has no option -{name}={value}")


def compile_llvm_ir(
    ir: str, triple: str, *, cpu: str = "", features: str = "", level: int = 2, assembly: bool = False
) -> bytes:
    """LLVM IR as an object file for any processor, position-independent; or as assembly.

    Only ``mlir-all`` can. It runs no passes of LLVM's optimizer. An IR that a code generator can't select instructions
    for, or a wrong ``cpu``, can end the process, as it ends ``llc``.

    :param ir: such as ``mlir.dialects.llvm.translate_module_to_llvmir`` returns
    :param triple: ``riscv64-unknown-linux-gnu``; it replaces the IR's own, and its data layout
    :param cpu: as ``llc -mcpu``: ``sifive-u74``
    :param features: as ``llc -mattr``: ``+m,+d``
    :param level: of the code generator, 0 to 3
    :raises ValueError: there is no such target, or the IR is invalid
    :raises RuntimeError: this build has no other code generators
    """
    import ctypes

    if PROFILE != "all":
        raise RuntimeError(f"{DISTRIBUTION} can't compile for other processors: install mlir-all")
    if level not in range(4):
        raise ValueError(f"level is {level}, not a number from 0 to 3")
    words = [ir.encode(), triple.encode(), cpu.encode(), features.encode()]
    made = []
    taker = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
    take = taker(lambda data, size: made.append(ctypes.string_at(data, size)))
    function = ctypes.CDLL(_c_api()).mlirReleaseCompile
    function.restype = ctypes.c_bool
    string = ctypes.c_char_p
    function.argtypes = [string, ctypes.c_size_t, *[string] * 3, ctypes.c_int, ctypes.c_bool, taker]
    if not function(words[0], len(words[0]), *words[1:], level, assembly, take):
        raise ValueError(made[0].decode("utf-8", "replace").strip())
    return made[0]


def _c_api() -> str:
    """The library that all modules share."""
    libraries = Path(__file__).with_name("_mlir_libs")
    names = libraries.glob("*MLIRPythonCAPI-*")
    return str(next(path for path in names if path.suffix in (".so", ".dylib", ".dll")))


if __name__ == "__main__":
    from mlir._installed import complaint

    print(json.dumps(INFO, indent=2, sort_keys=True))
    raise SystemExit(complaint(DISTRIBUTION) or None)
