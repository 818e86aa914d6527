"""Embed a policy in a compiler: its C++ class as an object, and an llc that is linked with it from stock archives.

The class is the one that ``MLRegAllocEvictAdvisor.cpp`` expects of TensorFlow's ahead-of-time compiler. LLVM's
``ReleaseModeModelRunner`` looks up a feature's memory by its name, writes to it, calls ``Run`` and reads the decision.
The numbers are written in hexadecimal, exactly; the order of operations is that of
:mod:`mlir_release.extras.mlgo.policies`.

LLVM's own build takes the files as ``LLVM_OVERRIDE_MODEL_HEADER_REGALLOCEVICTMODEL`` and
``LLVM_OVERRIDE_MODEL_OBJECT_REGALLOCEVICTMODEL``. Without building LLVM, its advisor, one source, is compiled again
with the model and linked ahead of the archives, so that the linker takes no advisor from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mlir_release.errors import UsageError, VerificationError
from mlir_release.extras.mlgo.compiling import Compiler, in_parallel
from mlir_release.extras.mlgo.conversation import converse
from mlir_release.extras.mlgo.documents import LearnedPolicy
from mlir_release.extras.mlgo.features import MASK, WEIGHT, EvictionLayout
from mlir_release.extras.mlgo.linking import compiler, failed, link_program, llvm_config, run
from mlir_release.extras.mlgo.policies import Scorer, maker
from mlir_release.extras.mlgo.problems import EVICTION, check_problem
from mlir_release.extras.mlgo.saved_model import compile_model
from mlir_release.host.files import replacing, write_atomically
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.digests import sha256_of
from mlir_release.model.regalloc_model import ADVISOR, DESCRIPTION, MODEL, SOURCES, ModelDescription

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, Module
    from mlir_release.extras.mlgo.features import Decision, Header
    from mlir_release.extras.mlgo.saved_model import Runtime, SavedModel
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: Makes a compiler that has a policy use it.
EMBEDDED = "-regalloc-enable-advisor=release"

#: Makes :data:`ADVISOR` include the model. Source: tf_find_and_compile in llvm/cmake/modules/TensorFlowCompile.cmake.
_HAVE_MODEL = f"-DLLVM_HAVE_TF_AOT_{MODEL.upper()}"

#: A function with registers to allocate, so that the compiler sends its features.
_SMALLEST = "define i64 @f(i64 %a, i64 %b) {\n  %c = mul i64 %a, %b\n  ret i64 %c\n}\n"


class Embedded(Struct, frozen=True, kw_only=True):
    """The files that were written, and their policy; ``embed --json`` prints it."""

    llvm: str
    policy: str  #: digest
    corpus: str  #: digest
    files: dict[str, str]  #: SHA-256 of each, by name
    compared: int = 0  #: modules that the llc was compared on
    identical: int = 0  #: those of them whose objects are equal


# -- the class --------------------------------------------------------------------------------------------------------


def model_sources(policy: LearnedPolicy, header: Header) -> dict[str, str]:
    """The class' header and source, by file name.

    Equal inputs give equal bytes, in every version of the toolkit: builds of wheels are known by them.

    :param header: of the compiler that the policy is to be embedded in
    :raises VerificationError: ``model-unsuitable``
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    layout = EvictionLayout(header)
    layout.expect(policy.features)
    Scorer(policy)  # its numbers are as many as they must be
    values = {
        tensor.name: f"Input{index}[{'P' if tensor.elements > 1 else '0'}]"
        for index, tensor in enumerate(header.features)
    }
    templates = Environment(
        loader=PackageLoader("mlir_release.extras.mlgo"),
        autoescape=False,  # C++
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["exactly"] = lambda values: ", ".join(float(value).hex() for value in values)
    given = {
        "policy": policy,
        "model": MODEL,
        "advice": header.advice.name,
        "inputs": header.features,  # LLVM's names of their types are those of C++
        "mask": list(values).index(MASK),
        "weight": policy.features.index(WEIGHT),
        "row": [f"double({values[name]})" for name in policy.features[:-1]],
    }
    return {name: templates.get_template(f"{name}.j2").render(given) for name in SOURCES}


def embed(policy: LearnedPolicy, toolchain: Toolchain, output: Path) -> Embedded:
    """Write the policy's header, source and object, and their description. Equal inputs give equal bytes.

    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``
    """
    _check(policy, toolchain)
    header = asked(toolchain)
    for name, text in model_sources(policy, header).items():
        write_atomically(output / name, text)
    with replacing(output / f"{MODEL}.o") as temporary:
        # By its name alone: the object must not depend on where it was made.
        run([*compiler(toolchain), f"{MODEL}.cpp", "-o", temporary.absolute()], cwd=output)
    about = ModelDescription(
        llvm=policy.llvm,
        policy=policy.digest,
        corpus=policy.corpus,
        features=tuple(tensor.name for tensor in header.features),
        files={name: sha256_of(output / name) for name in SOURCES},
    )
    write_atomically(output / DESCRIPTION, about.to_text())
    files = {name: sha256_of(output / name) for name in (*SOURCES, f"{MODEL}.o", DESCRIPTION)}
    return Embedded(llvm=policy.llvm, policy=policy.digest, corpus=policy.corpus, files=files)


def embed_saved_model(model: SavedModel, python: str, toolchain: Toolchain, output: Path) -> Embedded:
    """Write a saved model's header and object, which need XLA's runtime. No wheel takes them: there is no source.

    :param python: an interpreter that has TensorFlow
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``
    """
    _check(model, toolchain)
    (triple,) = llvm_config(toolchain, "--host-target")
    output.mkdir(parents=True, exist_ok=True)
    compile_model(model.folder, python, triple, output)
    files = {f"{MODEL}.{suffix}": sha256_of(output / f"{MODEL}.{suffix}") for suffix in ("h", "o")}
    return Embedded(llvm=model.llvm, policy=model.digest, corpus=model.corpus, files=files)


def _check(policy: LearnedPolicy | SavedModel, toolchain: Toolchain) -> None:
    if policy.problem != EVICTION.name:
        raise UsageError(
            "input-invalid",
            f"only eviction policies can be embedded, and this one is for {policy.problem}",
            remedy="use it in interactive mode, as `mlir-release mlgo evaluate` does",
        )
    if policy.llvm != toolchain.version:
        raise VerificationError(
            "model-unsuitable",
            f"the policy is for LLVM {policy.llvm}, and --llvm is {toolchain.version}",
            where=str(toolchain.prefix),
            remedy="name the LLVM that it was trained with, or train one with this",
        )


def link_llc(
    embedded: Embedded,
    toolchain: Toolchain,
    source: Path,
    output: Path,
    *,
    version: str,
    runtime: Runtime | None = None,
) -> Embedded:
    """Link ``output/llc`` with the model that :func:`embed` wrote there.

    :param toolchain: with LLVM's archives and headers
    :param source: llvm-project, of LLVM ``version``
    :param runtime: that the model needs; of a saved model
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``
    """
    include = [f"-I{output.absolute()}", *([f"-I{runtime.include}"] if runtime else [])]
    model = [output / f"{MODEL}.o", *([runtime.archive] if runtime else [])]
    again = {ADVISOR: [_HAVE_MODEL, *include]}
    program = link_program("llc", toolchain, source, output, version=version, again=again, given=model)
    return replace(embedded, files=embedded.files | {"llc": sha256_of(program)})


def compare(
    embedded: Embedded,
    policy: LearnedPolicy | SavedModel,
    toolchain: Toolchain,
    corpus: Corpus,
    folder: Path,
    output: Path,
) -> Embedded:
    """Compile all modules of a corpus by ``output/llc``, and by the stock llc that asks the policy.

    Objects of a saved model may differ: TensorFlow adds in another order than the code that it compiles, and where two
    choices are nearly equal, the last bit decides.

    :param folder: of the corpus
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    """
    check_problem(policy, corpus)
    answering = maker(policy)
    stock = Compiler(toolchain, corpus, folder)
    linked = Compiler(toolchain, corpus, folder, program=output.absolute() / "llc", options=(EMBEDDED,))

    def same(module: Module) -> bool:
        return linked.compile(module, emit=True).sha256 == stock.compile(module, answering, emit=True).sha256

    found = in_parallel(same, corpus.modules, None)
    different = [module.name for module, equal in zip(corpus.modules, found, strict=True) if not equal]
    if different and (isinstance(policy, LearnedPolicy) or len(different) == len(found)):
        raise VerificationError(
            "model-unsuitable",
            f"llc with the policy inside gives another object than the interactive mode for {len(different)} modules",
            where=different[0],
            remedy="report it with the policy: both must compute the same to the last bit",
        )
    return replace(embedded, compared=len(found), identical=len(found) - len(different))


def asked(toolchain: Toolchain) -> Header:
    """The header that the compiler sends to a policy.

    :raises MachineError: ``program-failed``
    """

    def first(decision: Decision) -> int:
        return 0

    with scratch_folder("mlgo") as folder:
        module = folder / "smallest.ll"
        module.write_text(_SMALLEST, encoding="utf-8")
        ending = converse([toolchain.program("llc"), "-O2", "-filetype=null", module], EVICTION, lambda _: first)
    if ending.code != 0 or ending.header is None:
        raise failed("llc does not say what it asks of a policy", ending.errors)
    return ending.header
