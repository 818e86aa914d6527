"""Embed a policy in a compiler: its C++ class as an object, and programs that are linked with it from stock archives.

The class is the one that LLVM's advisor expects of TensorFlow's ahead-of-time compiler. LLVM's
``ReleaseModeModelRunner`` looks up a feature's memory by its name, writes to it, calls ``Run`` and reads the decision.
The numbers are written in hexadecimal, exactly; the order of operations is that of
:mod:`mlir_release.extras.mlgo.policies`.

LLVM's own build takes the files of an eviction policy as ``LLVM_OVERRIDE_MODEL_HEADER_REGALLOCEVICTMODEL`` and
``LLVM_OVERRIDE_MODEL_OBJECT_REGALLOCEVICTMODEL``, and those of an inlining policy as ``…_INLINERSIZEMODEL``. Without
building LLVM, its advisor, one source, is compiled again with the model (:mod:`.linking`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mlir_release.builder.model.regalloc_model import DESCRIPTION, MODEL, ModelDescription
from mlir_release.extras.mlgo.compiling import Compiler, in_parallel
from mlir_release.extras.mlgo.conversation import converse
from mlir_release.extras.mlgo.documents import Corpus, LearnedPolicy, Module
from mlir_release.extras.mlgo.features import MASK, WEIGHT, Decision, Header
from mlir_release.extras.mlgo.linking import LlvmSources, compiler, failed, link_program, llvm_config, run
from mlir_release.extras.mlgo.policies import Scorer, maker
from mlir_release.extras.mlgo.problems import EVICTION, Model, PolicyProblem, problem_of
from mlir_release.extras.mlgo.training.saved_model import SavedModel, XlaRuntime, compile_model
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.files import replacing, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.toolchain import Toolchain


class Embedded(Struct, frozen=True, kw_only=True):
    """The files that were written, and their policy; ``embed --json`` prints it."""

    llvm: str
    policy: str  #: digest
    corpus: str  #: digest
    files: dict[str, str]  #: SHA-256 of each, by name
    compared: int = 0  #: modules that the linked programs were compared on
    identical: int = 0  #: those of them whose objects are equal, of each program


# -- the class --------------------------------------------------------------------------------------------------------


def model_sources(policy: LearnedPolicy, header: Header) -> dict[str, str]:
    """The class' header and source, by file name.

    Equal inputs give equal bytes, in every version of the toolkit: builds of wheels are known by them.

    :param header: of the compiler that the policy is to be embedded in
    :raises VerificationError: ``model-unsuitable``
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    problem = problem_of(policy.problem)
    problem.layout(header).expect(policy.features)
    Scorer(policy)  # its numbers are as many as they must be
    names = [tensor.name for tensor in header.features]
    elements = {tensor.name: tensor.elements for tensor in header.features}
    values = [
        problem.model.feature.format(value=f"double(Input{names.index(name)}[{'P' if elements[name] > 1 else '0'}])")
        for name in policy.features[:-1]
    ]
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
        "title": problem.title,
        "model": problem.model,
        "advice": header.advice.name,
        "inputs": header.features,  # LLVM's names of their types are those of C++
        "positions": elements.get(MASK, 2),
        "mask": names.index(MASK) if MASK in names else None,
        "weight": policy.features.index(WEIGHT) if WEIGHT in policy.features else None,
        "row": values,
    }
    name = problem.model.name
    return {f"{name}.{kind}": templates.get_template(f"model.{kind}.j2").render(given) for kind in ("h", "cpp")}


def embed(policy: LearnedPolicy, toolchain: Toolchain, output: Path) -> Embedded:
    """Write the policy's header, source and object; of one for evictions, also the description that wheels need.

    Equal inputs give equal bytes.

    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``
    """
    _check(policy, toolchain)
    problem = problem_of(policy.problem)
    header, name = asked(toolchain, problem), problem.model.name
    sources = model_sources(policy, header)
    for file, text in sources.items():
        write_atomically(output / file, text)
    with replacing(output / f"{name}.o") as temporary:
        # By its name alone: the object must not depend on where it was made.
        run([*compiler(toolchain), f"{name}.cpp", "-o", temporary.absolute()], cwd=output)
    written = [*sources, f"{name}.o"]
    if problem is EVICTION:
        about = ModelDescription(
            llvm=policy.llvm,
            policy=policy.digest,
            corpus=policy.corpus,
            features=tuple(tensor.name for tensor in header.features),
            files={file: sha256_of(output / file) for file in sources},
        )
        write_atomically(output / DESCRIPTION, about.to_text())
        written.append(DESCRIPTION)
    files = {file: sha256_of(output / file) for file in written}
    return Embedded(llvm=policy.llvm, policy=policy.digest, corpus=policy.corpus, files=files)


def embed_saved_model(model: SavedModel, python: str, toolchain: Toolchain, output: Path) -> Embedded:
    """Write a saved model's header and object, which need XLA's runtime. No wheel takes them: there is no source.

    :param python: an interpreter that has TensorFlow
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``
    """
    _check(model, toolchain)
    if model.problem != EVICTION.name:
        raise UsageError(
            "input-invalid",
            f"a saved model can be embedded if it is {EVICTION.title}, and this is {problem_of(model.problem).title}",
            where=str(model.folder),
            remedy="use it in interactive mode, as `mlir-release mlgo evaluate` does",
        )
    (triple,) = llvm_config(toolchain, "--host-target")
    output.mkdir(parents=True, exist_ok=True)
    compile_model(model.folder, python, triple, output)
    files = {f"{MODEL}.{suffix}": sha256_of(output / f"{MODEL}.{suffix}") for suffix in ("h", "o")}
    return Embedded(llvm=model.llvm, policy=model.digest, corpus=model.corpus, files=files)


def _check(policy: LearnedPolicy | SavedModel, toolchain: Toolchain) -> None:
    if policy.llvm != toolchain.version:
        raise VerificationError(
            "model-unsuitable",
            f"the policy is for LLVM {policy.llvm}, and --llvm is {toolchain.version}",
            where=str(toolchain.prefix),
            remedy="name the LLVM that it was trained with, or train one with this",
        )


def check_programs(programs: Sequence[str], policy: LearnedPolicy | SavedModel) -> None:
    """Refuse programs that never ask a policy of this kind. :raises UsageError: ``input-invalid``"""
    problem = problem_of(policy.problem)
    for program in programs:
        if program not in problem.programs:
            raise UsageError(
                "input-invalid",
                f"{program} can't use {problem.title}: {problem.elsewhere[program]}",
                remedy=f"name a program that can: {', '.join(problem.programs)}",
            )


def link(
    program: str,
    embedded: Embedded,
    policy: LearnedPolicy | SavedModel,
    toolchain: Toolchain,
    sources: LlvmSources,
    output: Path,
    *,
    runtime: XlaRuntime | None = None,
) -> Embedded:
    """Link a program with the model that :func:`embed` wrote to ``output``.

    :param program: one of the problem's
    :param toolchain: with LLVM's archives and headers
    :param sources: of the same version
    :param runtime: that the model needs; of a saved model
    :raises UsageError: ``input-missing``
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``, ``tool-missing``
    """
    model = problem_of(policy.problem).model
    again = including(model, output, *([runtime.include] if runtime else []))
    given = [output / f"{model.name}.o", *([runtime.archive] if runtime else [])]
    path = link_program(program, toolchain, sources, output, again=again, given=given)
    return replace(embedded, files=embedded.files | {program: sha256_of(path)})


def including(model: Model, *folders: Path) -> dict[str, list[str]]:
    """The advisor, compiled again with the model's header from one of these folders; for :func:`.link_program`.

    Source: tf_find_and_compile in llvm/cmake/modules/TensorFlowCompile.cmake.
    """
    searched = [f"-I{folder.absolute()}" for folder in folders]
    return {model.advisor: [f"-DLLVM_HAVE_TF_AOT_{model.name.upper()}", *searched]}


def compare(
    programs: Sequence[str],
    embedded: Embedded,
    policy: LearnedPolicy | SavedModel,
    toolchain: Toolchain,
    corpus: Corpus,
    folder: Path,
    output: Path,
) -> Embedded:
    """Compile all modules of a corpus by programs in ``output``, and by the stock ones, which ask the policy.

    Objects of a saved model may differ: TensorFlow adds in another order than the code that it compiles, and where two
    choices are nearly equal, the last bit decides.

    :param folder: of the corpus, which is for the policy's problem
    :raises VerificationError: ``model-unsuitable``
    """
    answering, option = maker(policy), problem_of(policy.problem).model.option
    different: set[str] = set()
    for program in programs:
        stock = Compiler(toolchain, corpus, folder, program=program)
        linked = Compiler(
            toolchain, corpus, folder, program=program, path=output.absolute() / program, options=(option,)
        )

        def same(module: Module, stock: Compiler = stock, linked: Compiler = linked) -> bool:
            return linked.digest(module) == stock.digest(module, answering)

        found = in_parallel(same, corpus.modules, None)
        odd = [module.name for module, equal in zip(corpus.modules, found, strict=True) if not equal]
        if odd and (isinstance(policy, LearnedPolicy) or len(odd) == len(found)):
            raise VerificationError(
                "model-unsuitable",
                f"{program} with the policy inside gives another result than the interactive mode for {len(odd)} "
                "modules",
                where=odd[0],
                remedy="report it with the policy: both must compute the same to the last bit",
            )
        different.update(odd)
    return replace(embedded, compared=len(corpus.modules), identical=len(corpus.modules) - len(different))


def asked(toolchain: Toolchain, problem: PolicyProblem = EVICTION) -> Header:
    """The header that the compiler sends to a policy.

    :raises MachineError: ``program-failed``
    """

    def first(decision: Decision) -> int:
        return 0

    with scratch_folder("mlgo") as folder:
        module = folder / "example.ll"
        module.write_text(problem.model.example, encoding="utf-8")
        options = [*problem.model.options, *problem.emitting]
        command: list[str | Path] = [toolchain.program(problem.program), *options, module, "-o", folder / "example.o"]
        ending = converse(command, problem, lambda _: first)
    if ending.code != 0 or ending.header is None:
        raise failed(f"{problem.program} does not say what it asks of a policy", ending.errors)
    return ending.header
