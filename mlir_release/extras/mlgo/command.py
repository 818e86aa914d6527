"""Train an eviction policy for LLVM's register allocator, and evaluate it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    FOLDER,
    PATH,
    ForeignCommand,
    jobs_option,
    json_option,
    output_option,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from mlir_release.extras.mlgo.documents import LearnedPolicy
    from mlir_release.extras.mlgo.linking import LlvmSources
    from mlir_release.extras.mlgo.toolchain import Toolchain
    from mlir_release.extras.mlgo.training.saved_model import SavedModel

    F = TypeVar("F", bound=Callable[..., Any])


def _toolchain(ctx: click.Context, parameter: click.Parameter, value: Path) -> Toolchain | None:
    """The LLVM to train for. :raises MachineError: if mlgo does not work on this machine"""
    from mlir_release.extras.mlgo.toolchain import Toolchain, check_machine

    if ctx.resilient_parsing:
        return None
    check_machine()
    return Toolchain(value)


#: ``toolchain``: an installed LLVM, by its prefix.
llvm_option = click.option(
    "--llvm", "toolchain", type=EXISTING_FOLDER, required=True, callback=_toolchain,
    help="Prefix of the LLVM to train for, for example /usr/lib/llvm-22; stock packages will do.",
)  # fmt: skip

#: ``python``: who answers for a saved model.
tensorflow_option = click.option(
    "--python",
    default="python3",
    show_default=True,
    help="With a saved model: a CPython that has its TensorFlow; a path, a command or a version.",
)


def development_option(help: str) -> Callable[[F], F]:
    """``development``: the folder of compilers in development mode."""
    return click.option(
        "--development", type=EXISTING_FOLDER, metavar="FOLDER", help=f"Folder that `mlgo development` wrote. {help}"
    )


def _sources(folder: Path) -> LlvmSources:
    """What ``--source`` names. :raises UsageError: ``input-missing``, ``input-invalid``"""
    from mlir_release.builder.sdk.sources.upstream import read_source
    from mlir_release.extras.mlgo.linking import LlvmSources

    return LlvmSources(folder, read_source(folder).version)


@contextmanager
def loaded(path: Path, python: str) -> Iterator[LearnedPolicy | SavedModel]:
    """A policy, by its file or by the folder of a saved model, which answers until the end of the block."""
    if not path.is_dir():
        from mlir_release.extras.mlgo.evaluate import load_policy

        yield load_policy(path)
        return
    from mlir_release.extras.mlgo.training.saved_model import opened

    with opened(path, python) as model:
        yield model


@click.group()
def mlgo() -> None:
    """Learn a policy for evictions or inlining on one's own code: corpus, trace, train, evaluate, embed."""


@mlgo.command("corpus", cls=ForeignCommand, starts="clang, upstream's extract_ir")
@click.argument("build", type=EXISTING_FOLDER)
@output_option("the corpus")
@llvm_option
@click.option(
    "--problem", type=click.Choice(["regalloc", "inlining"]), default="regalloc", show_default=True,
    help="What policies are to decide: which live range is evicted, or which call is inlined.",
)  # fmt: skip
@click.option("--filter", "pattern", metavar="REGEX", help="Take modules with such an option.  [default: ^-O[123sz]$]")
@click.option("--objects", default="", metavar="REGEX", help="Take modules with this in their object's path.")
@click.option(
    "--held-out", "share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.25, show_default=True,
    help="Share of modules that the training never sees.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(2), help="Take so many modules at most.")
@click.option("--profiled", is_flag=True, help="Refuse modules that were compiled without a profile.")
@click.option(
    "--thinlto",
    metavar="TARGET",
    default="",
    help="Take the modules of a ThinLTO link of this Ninja target instead, with what they imported from each other.",
)
@jobs_option
@json_option
def mlgo_corpus(build: Path, output: Path, toolchain: Toolchain, jobs: int | None, **asked: Any) -> None:
    """Take a corpus from a build tree of CMake's, compiled by clang with -Xclang -fembed-bitcode=all."""
    from mlir_release.extras.mlgo.corpora.corpus import Selection, make_corpus

    selection = Selection(**asked)
    if selection.thinlto and (selection.profiled or selection.pattern):
        raise click.UsageError("--filter and --profiled read compile commands, which modules of --thinlto do not have")
    if selection.thinlto and selection.problem != "regalloc":
        raise click.UsageError("--thinlto is for --problem regalloc: what it imports is not yet taken before inlining")
    with console.step("taking bitcode as the problem needs it"):
        found = make_corpus(build, output, toolchain, selection, jobs=jobs)
    counts = f"{len(found.training)} modules to train on, {len(found.held_out)} held out"
    console.result(f"{output / found.FILE}: {counts}", found)


@mlgo.command("development", cls=ForeignCommand, starts="clang, the compilers that it links")
@output_option("llc and clang in development mode")
@llvm_option
@click.option("--source", type=EXISTING_FOLDER, required=True, help="llvm-project of the same version.")
@click.option(
    "--tflite", type=EXISTING_FOLDER, default=Path("/usr"), show_default=True,
    help="Prefix of TFLite; Debian's package is libtensorflow-lite-dev.",
)  # fmt: skip
@json_option
def mlgo_development(output: Path, toolchain: Toolchain, source: Path, tflite: Path) -> None:
    """Link compilers that tell their own heuristic's decisions, and that PPO trains with, from stock archives."""
    from mlir_release.extras.mlgo.training.development import TFLite, link

    found = TFLite.find(tflite)
    with console.step("linking llc and clang with TFLite"):
        linked = link(toolchain, _sources(source), found, output)
    console.result(f"{output}: {' and '.join(linked.files)} of LLVM {linked.llvm}, in development mode", linked)


@mlgo.command("trace", cls=ForeignCommand, starts="the compilers of the corpus")
@click.argument("corpus", type=EXISTING_FOLDER)
@llvm_option
@development_option("Let its llc tell the default's own decisions, instead of imitating them.")
@click.option(
    "--sampling-rate", "rate", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True,
    help="Share of the training modules whose decisions are taken, chosen by name.",
)  # fmt: skip
@jobs_option
@json_option
def mlgo_trace(corpus: Path, toolchain: Toolchain, development: Path | None, rate: float, jobs: int | None) -> None:
    """Observe the decisions that the compiler asks for, and answer as its own heuristic would."""
    from mlir_release.extras.mlgo.compiling import Compiler
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.problems import problem_of
    from mlir_release.extras.mlgo.training.development import developing
    from mlir_release.extras.mlgo.training.trace import make_trace

    modules = load_corpus(corpus)
    if development is not None and modules.problem != "regalloc":
        raise click.UsageError("--development is for --problem regalloc: a stock clang tells its inliner's decisions")
    compiler, observer = Compiler(toolchain, modules, corpus), None
    if development is not None:
        observer = Compiler(toolchain, modules, corpus, path=developing(development, "llc", toolchain))
    with console.waiting(f"compiling {len(modules.training)} modules, and those of the trace again"):
        found = make_trace(compiler, observer=observer, rate=rate, jobs=jobs)
    teacher = "the default in development mode" if found.observed else problem_of(modules.problem).default
    console.result(
        f"{corpus / found.FILE}: {found.decisions:,} decisions; {teacher} gives the "
        f"default's object for {found.identical} of {found.traced} modules",
        found,
    )


@mlgo.command("train", cls=ForeignCommand, starts="the compilers of the corpus")
@click.argument("corpus", type=EXISTING_FOLDER)
@output_option("the training's state and the policy")
@llvm_option
@click.option(
    "--policy", "kind", type=click.Choice(["linear", "mlp"]), default="linear", show_default=True, help="Its form."
)
@click.option("--hidden", type=click.IntRange(1, 64), default=8, show_default=True, help="With mlp: hidden units.")
@click.option(
    "--start", type=click.Choice(["order", "heuristic"]), default="order", show_default=True,
    help="Begin with a plain order (docs/mlgo.md), or as the compiler's own heuristic chose in the trace.",
)  # fmt: skip
@click.option("--generations", type=click.IntRange(1), default=20, show_default=True, help="In all, with those done.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Begin no generation after so many.")
@click.option("--batch", type=click.IntRange(0), default=0, help="Try pairs on so many modules, drawn.  [default: all]")
@click.option("--pairs", type=click.IntRange(1), default=4, show_default=True, help="Pairs of policies to try in each.")
@click.option(
    "--sigma", type=click.FloatRange(0, min_open=True), default=0.1, show_default=True, help="Size of changes."
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=0.05, show_default=True, help="Size of steps.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of all random numbers.")
@click.option(
    "--source", type=EXISTING_FOLDER,
    help="llvm-project of the same version: link an llc that compiles a generation's policies at once, for evictions.",
)  # fmt: skip
@jobs_option
@json_option
def mlgo_train(
    corpus: Path,
    output: Path,
    toolchain: Toolchain,
    generations: int,
    minutes: float | None,
    source: Path | None,
    jobs: int | None,
    **settings: Any,
) -> None:
    """Train a policy by an evolution strategy. The same command resumes a training, and makes it longer."""
    from mlir_release.extras.mlgo.candidates import Candidates
    from mlir_release.extras.mlgo.compiling import Compiler
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.documents import Settings
    from mlir_release.extras.mlgo.training.trace import load_trace
    from mlir_release.extras.mlgo.training.train import Effort, begin, train
    from mlir_release.ground.storage.tempdirs import scratch_folder

    modules = load_corpus(corpus)
    traced = load_trace(corpus, modules)
    if settings["kind"] == "linear":
        settings["hidden"] = 0
    if source is not None and modules.problem != "regalloc":
        raise click.UsageError(f"--source is for --problem regalloc, and this is {modules.problem}")
    compiler = Compiler(toolchain, modules, corpus)
    with scratch_folder("mlgo") as folder:
        together = None
        if source is not None:
            with console.step("linking an llc for all policies of a generation"):
                together = Candidates(toolchain, modules, corpus, _sources(source), folder)
        training = begin(output, corpus, traced, Settings(**settings))
        with console.step(f"training on {len(modules.training)} modules, from generation {training.generation}"):
            effort = Effort(generations=generations, minutes=minutes, jobs=jobs)
            done = train(training, compiler, traced, output, effort, together=together)
    console.result(f"{output / done.policy().FILE}: reward {max(done.rewards):+.5f} on the training modules", done)


@mlgo.command("clone", cls=ForeignCommand, starts="the compilers of the corpus, TensorFlow")
@click.argument("corpus", type=EXISTING_FOLDER)
@output_option("the saved model and what it is made from")
@llvm_option
@click.option(
    "--ml-compiler-opt", "checkout", type=FOLDER, default=Path("ml-compiler-opt"), show_default=True,
    metavar="DIRECTORY", help="Checkout of google/ml-compiler-opt, whose programs train.",
)  # fmt: skip
@click.option(
    "--python",
    default="python3",
    show_default=True,
    help="A CPython that has TensorFlow; a path, a command or a version.",
)
@click.option("--iterations", type=click.IntRange(1), default=10_000, show_default=True, help="Steps of cloning.")
@development_option("PPO compiles with its clang.")
@click.option(
    "--ppo-iterations", "ppo", type=click.IntRange(0), default=0, show_default=True,
    help="Policies that PPO tries after the cloning, with --development.",
)  # fmt: skip
@json_option
def mlgo_clone(
    corpus: Path,
    output: Path,
    toolchain: Toolchain,
    checkout: Path,
    python: str,
    iterations: int,
    development: Path | None,
    ppo: int,
) -> None:
    """Clone the compiler's heuristic as a saved model, by google/ml-compiler-opt; PPO may go on from there."""
    if (development is None) != (ppo == 0):
        raise click.UsageError("--development and --ppo-iterations belong together: PPO needs both")
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.problems import problem_of
    from mlir_release.extras.mlgo.training.development import developing
    from mlir_release.extras.mlgo.training.ml_compiler_opt import Checkout, clone, reinforce
    from mlir_release.extras.mlgo.training.trace import load_trace

    modules = load_corpus(corpus)
    if modules.problem != "regalloc":
        raise click.UsageError(f"mlgo clone is for --problem regalloc, and this is {modules.problem}")
    traced = load_trace(corpus, modules)
    toolchain.check(modules)
    clang = developing(development, "clang", toolchain) if development else None
    trainer = Checkout(checkout.absolute(), python, output / "ml-compiler-opt.log")
    teacher = "the default" if traced.observed else problem_of(modules.problem).default
    with console.step(f"cloning {teacher} by {iterations} steps of ml-compiler-opt's"):
        done = clone(trainer, corpus, modules, traced, output, iterations=iterations)
    says = f"{done.model}: chooses as {teacher} in {done.agreement:.1%} of {done.decisions:,} decisions"
    if clang is not None:
        with console.step(f"PPO: {ppo} iterations of ml-compiler-opt's on {len(modules.training)} modules"):
            done = reinforce(trainer, done, corpus, modules, traced, clang, output, iterations=ppo)
        rewards = ", ".join(f"{reward:+.5f}" for reward in done.rewards)
        says += f"\n{done.reinforced}: mean rewards of the iterations {rewards}"
    console.result(says, done)


@mlgo.command("evaluate", cls=ForeignCommand, starts="the compilers of the corpus, TensorFlow")
@click.argument("corpus", type=EXISTING_FOLDER)
@click.option("--policy", type=PATH, required=True, help="The policy.json, or saved model, to evaluate.")
@tensorflow_option
@llvm_option
@click.option("--programs", type=PATH, help="Also count the instructions of this file's programs, by callgrind.")
@click.option(
    "--training", is_flag=True, help="On the training modules instead: what it has learnt, not what it is worth."
)
@click.option(
    "--trained-on",
    type=EXISTING_FOLDER,
    metavar="CORPUS",
    help="What the policy was trained on: then all modules count here that are not among those.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the confidence intervals.")
@jobs_option
@json_option
def mlgo_evaluate(
    corpus: Path,
    policy: Path,
    python: str,
    toolchain: Toolchain,
    programs: Path | None,
    training: bool,
    trained_on: Path | None,
    **how: Any,
) -> None:
    """Compare a policy with the default, on the modules that are held out."""
    from mlir_release.extras.mlgo.compiling import Compiler
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.evaluate import evaluate, unseen
    from mlir_release.extras.mlgo.instructions import Counter
    from mlir_release.extras.mlgo.problems import problem_of

    if training and trained_on is not None:
        raise click.UsageError("--training and --trained-on exclude each other")
    modules = load_corpus(corpus)
    counter = Counter(programs, toolchain, how["jobs"]) if programs else None
    compiler = Compiler(toolchain, modules, corpus)
    with loaded(policy, python) as judged:
        if trained_on is not None:
            chosen, title = unseen(modules, load_corpus(trained_on), judged), "modules that it was not trained on"
        else:
            chosen, title = modules.held_out, "held-out modules"
            if training:
                chosen, title = modules.training, "the training modules"
            if judged.corpus != modules.digest:
                console.warn(
                    "the policy was trained on another corpus, perhaps on what is held out here: give --trained-on"
                )
        counting = " and counting instructions" if counter else ""
        with console.waiting(f"compiling {len(chosen)} modules twice{counting}"):
            found = evaluate(judged, chosen, compiler, counter=counter, **how)
    measures = problem_of(modules.problem).measures
    if not console.json_mode:
        console.table(*found.table(measures), title=title)
        if found.runs:
            console.table(*found.runs_table(), title="programs with these modules")
    console.result(found.summary(measures), found)


@mlgo.command("embed", cls=ForeignCommand, starts="clang, TensorFlow, the programs that it links")
@click.argument("policy", type=PATH)
@output_option("the policy's C++ and the programs")
@tensorflow_option
@llvm_option
@click.option("--source", type=EXISTING_FOLDER, help="llvm-project of the same version: also link programs.")
@click.option(
    "--program", "programs", type=click.Choice(["llc", "clang", "opt"]), multiple=True,
    help="With --source: link OUTPUT/PROGRAM; repeatable.  [default: llc for evictions, clang for inlining]",
)  # fmt: skip
@click.option(
    "--check", type=EXISTING_FOLDER, metavar="CORPUS", help="With --source: compare them with the interactive mode."
)
@json_option
def mlgo_embed(
    policy: Path,
    output: Path,
    python: str,
    toolchain: Toolchain,
    source: Path | None,
    programs: tuple[str, ...],
    check: Path | None,
) -> None:
    """Write a policy as the header and object that LLVM's build takes, and link programs with it from stock archives.

    An eviction policy is for llc and clang, an inlining policy for clang and opt.
    """
    runtime = None
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.documents import LearnedPolicy
    from mlir_release.extras.mlgo.embed import check_programs, compare, embed, embed_saved_model, link
    from mlir_release.extras.mlgo.problems import check_problem, problem_of
    from mlir_release.extras.mlgo.training.saved_model import provide_runtime
    from mlir_release.ground.storage.cache import cache_directory

    if source is None and (check is not None or programs):
        raise click.UsageError("--program and --check need --source: give the sources, too")
    with loaded(policy, python) as chosen:
        wanted = tuple(dict.fromkeys(programs)) or (problem_of(chosen.problem).program,)
        check_programs(wanted, chosen)
        modules = load_corpus(check) if check is not None else None
        if modules is not None:
            check_problem(chosen, modules)
            toolchain.check(modules)
        if isinstance(chosen, LearnedPolicy):
            found = embed(chosen, toolchain, output)
        else:
            found = embed_saved_model(chosen, python, toolchain, output)
            runtime = provide_runtime(python, toolchain, cache_directory()) if source else None
        says = f"{output}: policy {found.policy[:12]}, trained on corpus {found.corpus[:12]}"
        if source is not None:
            sources = _sources(source)
            for program in wanted:
                with console.step(f"linking {program} with it"):
                    found = link(program, found, chosen, toolchain, sources, output, runtime=runtime)
        if check is not None and modules is not None:
            with console.waiting(f"compiling {len(modules.modules)} modules twice, by {', '.join(wanted)}"):
                found = compare(wanted, found, chosen, toolchain, modules, check, output)
            says += (
                f"\n{' and '.join(wanted)} give{'s' if len(wanted) == 1 else ''} the interactive mode's result for "
                f"{found.identical} of {found.compared} modules"
            )
    console.result(says, found)


@mlgo.command("report")
@click.argument("corpus", type=EXISTING_FOLDER)
@click.option("--training", type=PATH, required=True, help="The training.json to show.")
@click.option("--evaluation", type=PATH, help="What evaluate --json printed.")
@click.option("--embedded", type=PATH, help="What embed --json printed.")
@output_option("the page, report.html")
@json_option
def mlgo_report(corpus: Path, training: Path, evaluation: Path | None, embedded: Path | None, output: Path) -> None:
    """Write a page of a training: its curve, the evaluation, and what was embedded. It needs no network."""
    from mlir_release.extras.mlgo.corpora.corpus import load_corpus
    from mlir_release.extras.mlgo.documents import Training
    from mlir_release.extras.mlgo.embed import Embedded
    from mlir_release.extras.mlgo.evaluate import Evaluation
    from mlir_release.extras.mlgo.report import load_result, report
    from mlir_release.extras.mlgo.training.trace import load_trace
    from mlir_release.ground.storage.files import write_atomically

    modules = load_corpus(corpus)
    page = report(
        modules,
        load_trace(corpus, modules),
        Training.load(
            training,
            missing="there is no training to show",
            remedy="mlir-release mlgo train CORPUS -o FOLDER writes FOLDER/training.json",
        ),
        load_result(evaluation, Evaluation),
        load_result(embedded, Embedded),
    )
    write_atomically(output / "report.html", page)
    console.result(f"{output / 'report.html'}", {"page": str(output / "report.html")})
