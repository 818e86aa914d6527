"""clang's Python bindings: ``clang.cindex`` with libclang beside it, and the compiler's own headers."""

from pathlib import Path

from mlir_release.ground.llvm.projects import Profile, Project

PROJECT = Project(
    name="clang",
    title="clang's Python bindings",
    package=__name__,
    folder=Path(__file__).parent,
    module="clang",
    profiles={
        "libclang": Profile(
            distribution="llvm-libclang",
            makes="any-python",
            summary="clang's Python bindings, with libclang and the compiler's own headers",
            meaning="clang.cindex with libclang beside it; one wheel for all CPythons",
            core_minutes=3.5,
            stands_for=("clang", "libclang"),
            size=14_400_000,  # of LLVM 22.1.8's, made of Debian's packages
        ),
    },
    subprojects=("clang",),
    needs="clang/bindings/python/clang/cindex.py",
    paths=("clang", "llvm", "cmake", "third-party"),
    suites=("smoke", "bindings"),
    short="clang",
    homepage="https://clang.llvm.org/",
    tells="python -m clang._release",
    entry="clang.cindex",
    check="clang.cindex.Index.create()",
    sdk_core_minutes=216,
    suite_core_minutes={"smoke": 0.1, "bindings": 0.3},
    measured="an SDK is assumed, three fifths of one of MLIR; a wheel was measured",
)
