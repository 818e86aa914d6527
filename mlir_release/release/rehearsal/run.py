"""The steps of a rehearsal: those of the scheduled job, of the build and of a user."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Protocol

from mlir_release.builder.model.names import WheelKey
from mlir_release.builder.sdk.components import SdkSpec
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.provision import LLVM_PROJECT, adopt_sdk, available_releases, provide_sdk, source_of
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.source import pack
from mlir_release.ground import plugins
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, find_project
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.index.generate import generate
from mlir_release.release.index.pages import read_programs
from mlir_release.release.index.site import FOLDERS, Section, SiteOptions
from mlir_release.release.instructions.install_snippets import newest
from mlir_release.release.instructions.lockfiles import requirements_name
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.wheel_target import TestTarget, WheelTarget, common_target
from mlir_release.release.probe.probe import CleanRoom, probe_published
from mlir_release.release.rehearsal.report import RehearsalReport
from mlir_release.release.rehearsal.world import choose, choose_profiles, make_forge, make_upstream
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.upload import upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.release.rehearsal.world import Released


class ExtraStep(Protocol):
    """A step that an extra adds after the publication: the hook ``mlir_release.rehearsal`` (docs/extras.md).

    A module with these names is one.
    """

    @property
    def options(self) -> Sequence[Callable[[Any], Any]]:
        """Decorators of click's that add options to ``mlir-release rehearsal``."""

    def profiles(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The profiles that must be released for it, in addition to those that are asked for.

        :param given: the values of all steps' options, by their parameters' names
        """

    def run(self, rehearsal: Rehearsal, given: Mapping[str, Any]) -> None:
        """Do it, each part in a step of ``rehearsal.report``; nothing if the options do not ask for it."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a rehearsal."""

    workspace: Path
    pythons: tuple[str, ...] = ()  #: versions or paths; the running one and one more if empty
    projects: tuple[str, ...] = (DEFAULT_PROJECT,)
    profiles: tuple[str, ...] = ()  #: of these projects; of one that has none of them, its first
    llvm: str | None = None  #: a version
    prefix: Path | None = None  #: an installed LLVM
    source: Path | None = None  #: its source tree
    from_source: bool = False  #: compile LLVM, even if there are packages of it
    floor: str = ""  #: the oldest platform that it is compiled for
    sdk: Path | None = None  #: an SDK that was made before
    jobs: int | None = None
    force: bool = False  #: another snapshot of a revision that has one

    given: Mapping[str, Any] = field(default_factory=dict)  #: the options of steps that extras add

    def released(self, steps: Iterable[ExtraStep]) -> Released:
        """The profiles to build: those that are asked for, and those that steps of extras need, by their projects."""
        found = dict(choose_profiles(self.projects, self.profiles))
        needed = [profile for step in steps for profile in step.profiles(self.given)]
        if needed:  # extras are about MLIR's wheels
            found[DEFAULT_PROJECT] = tuple(dict.fromkeys((*found.get(DEFAULT_PROJECT, ()), *needed)))
        return found


def rehearse(options: Options) -> RehearsalReport:
    """Do all steps. :raises ReleaseError: at the first one that fails; re-running resumes there"""
    need("build", "elftools", "lit", "psutil", "zstandard")
    given = {"--prefix": options.prefix, "--from-source": options.from_source, "--sdk": options.sdk}
    if len(chosen := [name for name, value in given.items() if value]) > 1:
        raise UsageError(
            "option-invalid",
            f"{' and '.join(chosen)} exclude each other",
            remedy="give one: an installed LLVM, one to be compiled, or an SDK that was made before",
        )
    return Rehearsal(options).run()


def expected(cache: Path, *, cores: int) -> str:
    """How long a rehearsal takes, and what disk it needs, by what the cache has: ``about 10 minutes; 2 GB of disk …``.

    Measured on idle machines with two and four cores; compilers take most of the time.
    """
    is_first = not any((cache / "sdks").glob("*"))
    minutes = round((50 if is_first else 20) / min(max(cores, 1), 8))
    needed = 6_000_000_000 if is_first else 2_000_000_000
    free = disk_usage(cache if cache.is_dir() else Path.cwd()).free
    lacking = "; make room first" if free < needed else ""
    return (
        f"about {minutes} minutes on {cores} idle cores, for a {'first' if is_first else 'later'} run; "
        f"{needed / 1e9:.0f} GB of disk, of {free / 1e9:.0f} GB that are free{lacking}"
    )


class Rehearsal:
    """One run, with values for later steps: ``pythons``, the interpreters; ``outcome``, the release."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.workspace = options.workspace.absolute()
        self.site = self.workspace / "site"  #: the pages' folder
        self.cache = cache_directory()
        self.report = RehearsalReport()
        self.steps: list[ExtraStep] = list(plugins.hooks(plugins.REHEARSAL).values())
        self.released = options.released(self.steps)
        self.sdks: dict[str, Sdk] = {}  #: by the project

    def run(self) -> RehearsalReport:
        """All steps, in order."""
        self.workspace.mkdir(parents=True, exist_ok=True)
        console.say(f"workspace: {self.workspace} (re-running resumes at the first unfinished step)")
        console.say(f"cache:     {self.cache}")
        console.say(f"expected:  {expected(self.cache, cores=os.cpu_count() or 1)}")
        self.prepare()
        self.snapshot()
        self.build_and_test()
        self.publish()
        self.install_cleanly()
        for step in self.steps:
            step.run(self, self.options.given)
        return self.report

    def prepare(self) -> None:
        """Choose the LLVM and the CPythons, and make the repositories."""
        options = self.options
        with self.report.step("inspect the machine") as results:
            available = available_releases(
                cache=self.cache,
                prefix=options.prefix or options.sdk,
                source=self.source(self.first),
                version=options.llvm,
                project=self.first,
            )
            self.release, self.pythons = choose(available, options.pythons, project=self.first)
            versions = ", ".join(python.version for python in self.pythons)
            results.append(f"LLVM {self.release.version}, CPython {versions}")
        with self.report.step("make upstream and release repository") as results:
            trees = {
                name: source_of(self.release, cache=self.cache, directory=self.source(name), project=name)
                for name in self.released
            }
            older = make_upstream(self.workspace / "upstream.git", self.release, trees)
            self.forge = make_forge(self.workspace, older, self.pythons, self.released)
            results.append(f"llvm-project at {self.release.version}; the pin starts at {older.version}")

    def snapshot(self) -> None:
        """Select, pin, tag, draft and dispatch, as the scheduled job does."""
        with self.report.step("select, pin, tag, draft, dispatch") as results:
            matrix = matrix_of_branch(self.forge)
            self.revision = Upstream.of(matrix.release).resolve("head")
            self.outcome = start(self.forge, self.revision, matrix, force=self.options.force)
            selected = f"{self.revision.sha[:12]} ({self.revision.subject})"
            results += [f"selected {selected}", self.outcome.text().splitlines()[0], *self.outcome.steps]
        self.report.tag = self.outcome.tag
        self.dist = self.workspace / "dist" / self.outcome.tag

    def build_and_test(self) -> None:
        """Build and test only the draft's missing targets."""
        self.draft = Draft.load(self.forge, self.outcome.tag)
        self.matrix = self.draft.matrix
        profiles = {(wheel.configuration.project, wheel.profile) for wheel in self.matrix.wheels}
        wanted = {(project, profile) for project, names in self.released.items() for profile in names}
        if lacking_profiles := {profile for _, profile in wanted - profiles}:
            raise UsageError(
                "release-unsuitable",
                f"{self.outcome.tag} was made without wheels of the profile {' and '.join(sorted(lacking_profiles))}",
                where=str(self.workspace),
                why="an earlier rehearsal in this workspace released the same revision",
                remedy="make another snapshot with --force, or give another --workspace",
            )
        card = self.draft.card() if self.draft.release.draft else None
        if card is None or not (card.lacking_wheels or card.lacking_tests):
            return
        wheels = [self.matrix.wheel(name) for name in card.lacking_wheels]
        tests = [test for test in self.matrix.tests if test.name in card.lacking_tests]
        lacking: list[WheelTarget | TestTarget] = [*wheels, *tests]
        for project in dict.fromkeys(target.configuration.project for target in lacking):
            with self.report.step("SDK" if len(self.released) == 1 else f"SDK of {project}") as results:
                info = self.make_sdk(project).info
                results.append(f"{info.provider}, {info.file_count} files, {format_bytes(info.size)}")
        bindings = [wheel for wheel in wheels if not wheel.configuration.has_sdk]
        for configuration in {wheel.configuration.name: wheel.configuration for wheel in bindings}.values():
            self.build([wheel for wheel in bindings if wheel.configuration == configuration])
            self.upload()  # immediately: a complete target in the draft is never rebuilt
        if packed := [wheel for wheel in wheels if wheel.configuration.has_sdk]:
            self.pack(packed)
            self.upload()
        for test in tests:
            self.test(test)
        self.upload()

    def source(self, project: str) -> Path | None:
        """The source tree that was given for a project; an SDK has one of its own."""
        if self.options.source is not None or self.options.sdk is None:
            return self.options.source
        return self.options.sdk / "source" if Sdk.load(self.options.sdk).info.project == project else None

    @property
    def first(self) -> str:
        """The project that the LLVM and the CPythons are chosen for: one that has requirements, if there is such."""
        return min(self.released, key=lambda name: not find_project(name).has_requirements)

    def make_sdk(self, project: str) -> Sdk:
        """An SDK of a project that is recorded with the rehearsal's own commit, which represents the release."""
        options, commit, epoch = self.options, self.revision.sha, self.revision.epoch
        given = Sdk.load(options.sdk) if options.sdk is not None else None
        if given is not None and given.info.project == project:
            self.sdks[project] = adopt_sdk(given, revision=commit, source_epoch=epoch, cache=self.cache)
            return self.sdks[project]
        self.sdks[project] = provide_sdk(
            self.release,
            self.revision,
            SdkSpec(project=project, floor=options.floor),
            cache=self.cache,
            prefix=options.prefix,
            source=options.source,
            from_source=options.from_source,
            jobs=options.jobs,
        )
        return self.sdks[project]

    def request(self, target: WheelTarget) -> WheelRequest:
        """The request for a target's build."""
        made = WheelRequest.of_order(
            target.order(tag=self.outcome.tag, version=self.outcome.wheel_version, revision=self.outcome.revision),
            self.sdks[target.configuration.project],
        )
        return replace(made, floor="")  # it is installed on this machine only

    def build(self, targets: Sequence[WheelTarget]) -> None:
        """Build the wheels of one configuration in parallel."""
        wanted = {target.python for target in targets}
        pythons = [python for python in self.pythons if python.cpython in wanted]
        named = ", ".join(python.tag for python in pythons) or "every CPython"
        with self.report.step(f"build {targets[0].distribution} for {named}") as results:
            built = build_wheels(
                self.request(common_target(targets)), pythons, output=self.dist, jobs=self.options.jobs
            )
            results.append(f"{len(built)} wheels")
        self.report.wheels += built

    def pack(self, targets: Sequence[WheelTarget]) -> None:
        """Write the wheels of the SDK, together."""
        with self.report.step(f"pack {' and '.join(target.distribution for target in targets)}") as results:
            made = pack([self.request(target) for target in targets], output=self.dist)
            results += [f"{path.name}, {format_bytes(path.stat().st_size)}" for path in made]

    def test(self, test: TestTarget) -> None:
        """Run one suite on one wheel; its report is uploaded with the wheel."""
        # A wheel of the SDK is for every CPython.
        python = next((python for python in self.pythons if python.cpython == test.python), self.pythons[0])
        with self.report.step(f"test {test.name}") as results:
            (report,) = run_suites(
                self.wheel_of(self.matrix.wheel(test.wheels[0])),
                sdk=self.sdks[test.configuration.project],
                suites=[test.suite],
                workdir=self.workspace / "tests",
                python=str(python.executable),
                target=test.name,
            )
            report.write(self.dist)
            results.append(", ".join(f"{count} {name}" for name, count in report.counts.items() if count))
        console.summary(report.markdown())
        if not report.passed:
            raise VerificationError(
                "tests-failed",
                f"{test.name} failed: {', '.join(failure.name for failure in report.failures[:5])}",
                where=str(self.workspace / "tests" / test.name),
            )

    def wheel_of(self, target: WheelTarget) -> Path:
        """The target's wheel: built in this run or an earlier one, else the draft's."""
        slot = target.slot
        self.draft.refresh()
        asset = self.draft.wheels().get(slot)
        if asset is not None:  # the draft's takes precedence, because it will be published
            self.dist.mkdir(parents=True, exist_ok=True)
            return self.draft.fetch(asset, self.dist)
        return next(path for path in sorted(self.dist.glob("*.whl")) if WheelKey.of_file(path.name) == slot)

    # -- the world ----------------------------------------------------------------------------------------------

    def upload(self) -> None:
        """Put the new files into the draft."""
        with self.report.step("upload to the draft") as results:
            results.append(upload(self.draft, self.dist).text().splitlines()[0])

    def publish(self) -> None:
        """Verify and publish, draw the pages, and try their commands."""
        interpreters = [python.executable for python in self.pythons]
        with self.report.step("verify from the draft's assets, publish") as results:
            outcome = publish(self.draft)
            results.append(outcome.text().splitlines()[0])
            # The dispatched run ends, as a workflow runner does it.
            workflow = matrix_of_branch(self.forge).release.workflow
            while (run := self.forge.take_run(workflow)) is not None:
                self.forge.finish_run(run, "success" if run.ref == self.outcome.tag else "cancelled")
        site = self.site
        with self.report.step("generate the index") as results:
            matrix = matrix_of_branch(self.forge)
            sections: Mapping[str, Section] = plugins.hooks(plugins.PAGES)
            given = {name: value for section in sections.values() for name, value in section.in_rehearsal().items()}
            options = SiteOptions(sections=sections, given=given)
            pages = generate(self.forge, site, base_url=site.as_uri(), matrix=matrix, options=options)
            results.append(pages.text())
            self.report.index = str(site / "index.html")
            self.report.links = {
                title: str(site / folder / "index.html") if folder else "" for title, folder in pages.links.items()
            }
        with self.report.step("probe the installation commands") as results:
            room = CleanRoom(pythons=interpreters)
            probed = probe_published(self.forge, site, self.outcome.tag, room, base_url=site.as_uri(), branch="main")
            results.append(f"{len(probed.installed)} commands install the wheel")
        manifest = self.manifest
        names = [requirements_name(manifest, name) for name in manifest.heads]
        self.commands = [newest(str(site / "snapshots" / "latest" / name)) for name in names]
        self.report.commands = [command.text for command in self.commands]

    def install_cleanly(self) -> None:
        """Run the commands of the output's last lines in one clean virtual environment, and each first program."""
        python = self.pythons[0]
        with self.report.step(f"pip install in a clean environment (CPython {python.version})") as results:
            environment = venv.create(self.workspace / "installed", python.executable)
            for command in self.commands:
                environment.install(*command.arguments)
            for project in map(find_project, self.manifest.projects):
                program = next(iter(read_programs(project).values()), None)
                if program is None:
                    continue
                code: list[str | Path] = [environment.python, "-I", "-c", program["text"]]
                done = capture(code, environment=environment.variables())
                if not done.ok or program["output"] not in ("", done.stdout.strip()):
                    raise VerificationError(
                        "tests-failed",
                        f"the installed {project.heading} does not run a first program",
                        where=str(environment.root),
                        why=done.complaint or f"it printed {done.stdout.strip()!r}",
                        remedy=f"mlir-release release yank {self.outcome.tag} --reason … --forge {self.forge.root}",
                    )
                results.append(f"{program['file']} of {project.heading} works")

    @property
    def manifest(self) -> Manifest:
        """The published release's."""
        path = self.page / MANIFEST_NAME
        return Manifest.from_text(read_document(path), where=str(path))

    @property
    def page(self) -> Path:
        """The folder of the release's page, which has all that users know of it."""
        return self.site / FOLDERS["snapshot"] / self.outcome.tag

    def find_source(self) -> UpstreamSource:
        """The whole source tree of llvm-project that the release was made from: an SDK's own has no examples."""
        return fetch_source(
            self.release, cache=self.cache, directory=self.options.source, upstream=LLVM_PROJECT, whole=True
        )
