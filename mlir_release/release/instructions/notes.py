"""The text of a release's page, in Markdown: pip reads its links, people the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import code, code_block, link, markdown, table
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, heading_of, known_profile, known_project
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import SYSTEMS, PlatformTag
from mlir_release.release.instructions.install_snippets import Command, first_command, own_commands
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, TestedRelaxed, WheelEntry
from mlir_release.release.model.measures import LOOK_BACK, make_series, moved
from mlir_release.release.transaction.draft import previous_manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mlir_release.builder.model.test_report import ExpectedFailures
    from mlir_release.release.forge.base import Forge, Release

#: Bytes of a body. GitHub takes 125,000 characters; its documentation doesn't say so (scikit-build/github-release#65).
LIMIT = 124_000

#: Tests that fail for one reason, and runs that they fail in, in the notes; the page and the manifest name all.
_SHOWN = 5


def title(manifest: Manifest) -> str:
    """The release's title."""
    name = heading_of(next(iter(manifest.projects), DEFAULT_PROJECT))
    return f"{name} {manifest.version if manifest.kind == 'numbered' else manifest.tag}"


def titles_of(manifest: Manifest) -> list[str]:
    """What its wheels are of, for people: ``MLIR's Python bindings``."""
    known = {name: known_project(name) for name in manifest.projects or (DEFAULT_PROJECT,)}
    return [project.title if project is not None else name for name, project in known.items()]


def github_page(upstream: str) -> str:
    """The web page of an upstream on GitHub, without a slash at the end; empty for any other upstream."""
    match = re.fullmatch(r"(?:https://|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?", upstream)
    return f"https://github.com/{match[1]}" if match else ""


def python_name(tag: str) -> str:
    """``3.12`` for ``cp312``, ``3.14t`` for ``cp314t``; other tags as they are."""
    try:
        return CPython.of_tag(tag).version
    except ValueError:
        return tag


def stable_abi_losses(manifest: Manifest) -> str:
    """What wheels for the stable ABI give up, in sentences; empty if there is no such wheel, or nobody says it."""
    serving = dict.fromkeys(wheel.project for wheel in manifest.wheels if wheel.serves)
    projects = (known_project(name) for name in serving)
    return " ".join(project.stable_abi_loss for project in projects if project is not None and project.stable_abi_loss)


def python_names(wheel: WheelEntry) -> str:
    """The CPythons of a wheel: ``3.11``, ``3.12, 3.13 (one wheel, stable ABI)``, or ``any``."""
    names = ", ".join(map(python_name, wheel.pythons)) or "any"
    return f"{names} (one wheel, stable ABI)" if wheel.serves else names


def format_total(count: int) -> str:
    """Many bytes, as :func:`~mlir_release.ground.console.format_bytes` shows few."""
    return f"{count / 1e9:.2f} GB" if count >= 1_000_000_000 else format_bytes(count)


@dataclass(frozen=True, order=True)
class RunsOn:
    """What a wheel runs on, for people. Sorts Linux first."""

    rank: int
    name: str  #: ``Linux x86_64``
    needs: str  #: ``glibc ≥ 2.28``, or empty

    def __str__(self) -> str:
        return f"{self.name}, {self.needs}" if self.needs else self.name


@cache
def runs_on(tags: tuple[str, ...]) -> RunsOn:
    """What a wheel runs on, as its platform tags say."""
    parsed = [PlatformTag.parse(tag) for tag in tags]
    if not parsed:
        return RunsOn(len(SYSTEMS), "", "")
    found = parsed[0].platform
    glibc = [tag.glibc for tag in parsed if tag.glibc]
    macos = [tag.macos for tag in parsed if tag.macos]
    needs = "glibc ≥ {}.{}".format(*min(glibc)) if glibc else "version ≥ {}.{}".format(*min(macos)) if macos else ""
    rank = list(SYSTEMS).index(found.os) if found.os in SYSTEMS else len(SYSTEMS)
    return RunsOn(rank, found.title, needs)


def size_change(wheel: WheelEntry, previous: Manifest | None) -> str:
    """How much larger or smaller than the previous release's wheel of the same target; empty if there was none."""
    for other in previous.wheels if previous else ():
        if other.target == wheel.target and other.size:
            return f"{(wheel.size - other.size) / other.size:+.1%}"
    return ""


def total_change(manifest: Manifest, previous: Manifest | None) -> str:
    """How much larger or smaller the wheels are that both releases have; empty if they share none."""
    before = {wheel.target: wheel.size for wheel in previous.wheels} if previous else {}
    pairs = [(wheel.size, before[wheel.target]) for wheel in manifest.wheels if before.get(wheel.target)]
    old = sum(size for _, size in pairs)
    return f"{(sum(size for size, _ in pairs) - old) / old:+.1%}" if old else ""


def notes(
    manifest: Manifest,
    *,
    shown: Sequence[Command],
    urls: Mapping[str, str],
    previous: Manifest | None,
    earlier: Sequence[Manifest] = (),
) -> str:
    """The release's body, in at most :data:`LIMIT` bytes: of what is too much, the last sections go first, then wheels.

    :param shown: the commands for its main distribution, the last by a page that lists all files
    :param urls: of the release's assets, by name
    :param previous: the release that sizes are compared with
    :param earlier: the releases that measures are compared with
    """

    def row(wheel: WheelEntry) -> tuple[str, ...]:
        return (
            link(markdown(wheel.filename), f"{urls[wheel.filename]}#sha256={wheel.sha256}"),
            markdown(str(runs_on(wheel.platforms))),
            markdown(python_names(wheel)),
            format_bytes(wheel.size),
            size_change(wheel, previous),
        )

    head, rows, facts = _head(manifest, shown), [row(wheel) for wheel in manifest.wheels], _facts(manifest)
    sections = {
        "Carried patches": [
            f"- {code(sha)} {markdown(text)}" for sha, _, text in (row.partition(" ") for row in _carried(manifest))
        ],
        "Waived": [
            f"- {code(each.target)}: {markdown(each.reason)} ({markdown(each.by)}, {markdown(each.at[:10])})"
            for each in manifest.waivers
        ],
        "Requirements that differ from upstream's": [_relaxed(row) for row in manifest.relaxed],
        "Left out": [f"- {code(row.target)}: {markdown(row.reason)}" for row in manifest.left_out],
        "Known failures": [_known(row, where) for row, where in known_failures(manifest)],
        "Performance": [f"- {markdown(line)}" for line in moved(make_series([*earlier, manifest]), manifest.tag)],
    }
    sections = {heading: lines for heading, lines in sections.items() if lines}
    cut: list[str] = []

    def draw() -> str:
        lines = [*head, table(("wheel", "runs on", "CPython", ">size", ">change"), rows)]
        if lacking := len(manifest.wheels) - len(rows):
            lines += ["", f"{lacking} more wheels have no room here: {code(shown[-1].text)} finds them."]
        lines += facts
        for heading, listed in sections.items():
            lines += ["", f"### {heading}", "", *listed]
        if cut:
            lines += ["", f"No room here, but in {code(MANIFEST_NAME)}: {', '.join(cut)}."]
        return "\n".join(lines) + "\n"

    while len((body := draw()).encode()) > LIMIT and (sections or rows):
        if sections:
            cut.insert(0, sections.popitem()[0])
        else:
            del rows[-10:]
    return body


def write_page(forge: Forge, release: Release, manifest: Manifest, previous: Manifest | None) -> Release:
    """Give a draft the title and the notes of its manifest. ``previous``: the release that sizes are compared with"""
    body = notes(
        manifest,
        shown=own_commands(forge, manifest),
        urls={asset.name: asset.url for asset in release.assets},
        previous=previous,
        earlier=_earlier(forge, manifest, previous),
    )
    if (release.title, release.body) == (title(manifest), body):
        return release
    return forge.edit_release(release, title=title(manifest), body=body)


def _earlier(forge: Forge, manifest: Manifest, previous: Manifest | None) -> list[Manifest]:
    """The releases before one, as many as its measures are compared with. One without measures costs no request.

    One that can't be read ends the row: it is not what is published.
    """
    found: list[Manifest] = []
    measured = any(test.measures for test in manifest.tests)
    while measured and previous is not None:
        found.append(previous)
        if len(found) == LOOK_BACK:
            break
        try:
            previous = previous_manifest(forge, [previous.previous_tag], previous.tag)
        except ReleaseError as error:
            console.warn(f"measures are compared with {len(found)} releases: {error.what}")
            break
    return found


def _carried(manifest: Manifest) -> list[str]:
    return manifest.stack.lines() if manifest.stack is not None else []


def imported_as(manifest: Manifest) -> str:
    """A sentence, for distributions of patched bindings: they are imported by the names of upstream's; else empty."""
    names = {name: known_project(project) for project, rows in manifest.projects.items() for name in rows}
    kinds = {wheel.distribution: known_profile(wheel.project, wheel.profile) for wheel in manifest.wheels}
    rows = [
        f"{name} is imported as {project.module}"
        for name, project in names.items()
        if project is not None and ((kind := kinds.get(name)) is None or kind.makes != "sdk")
    ]
    if manifest.stack is None or not rows:
        return ""
    return f"{'; '.join(rows)}, as upstream's wheels are: install one or the other, not both."


def _head(manifest: Manifest, shown: Sequence[Command]) -> list[str]:
    upstream = github_page(manifest.upstream)
    short, page = code(manifest.revision[:12]), f"{upstream}/commit/{manifest.revision}"
    revision = link(short, page) if upstream else code(manifest.revision)
    named = " and ".join(heading_of(name) for name in manifest.projects or (DEFAULT_PROJECT,))
    first = "The first" if len(manifest.projects) < 2 else "The first for each"
    if any(command.label == "pinned" for command in shown):
        hint = f"{first} asks no index for {named}, and checks each wheel's SHA-256. With `-f`, pip asks PyPI, too."
    else:
        hint = f"This asks PyPI, too. `pip install 'NAME @ LINK'`, with a link below, asks no index for {named}."
    return [
        f"Wheels of {' and of '.join(map(markdown, titles_of(manifest)))}, built from llvm-project {revision}"
        + (f" (LLVM {markdown(manifest.llvm_version)})" if manifest.llvm_version else "")
        + (f": upstream's {markdown(manifest.stack.text())}." if manifest.stack else "."),
        *(["", markdown(line)] if (line := imported_as(manifest)) else []),
        "",
        code_block([command.text for command in shown], ""),
        "",
        hint,
        "",
    ]


def _facts(manifest: Manifest) -> list[str]:
    lines = ["", markdown(losses)] if (losses := stable_abi_losses(manifest)) else []
    # Without links: those of this page are for installers.
    if {SDK, SDK_TOOLS} & set(manifest.distributions):
        lines += [
            f"\n{code(SDK)} and {code(SDK_TOOLS)} hold LLVM and MLIR to build against, beside the others."
            + (
                f" {code(command)} prints the folder for CMake's `MLIR_DIR`; Makefiles and Rust ask `llvm-config`."
                if (command := first_command(manifest, SDK))
                else ""
            )
        ]
    lines += [
        f"\nSources: {code(source.filename)}, SHA-256 {code(source.sha256)}. "
        "They are compiled with this release's `mlir-sdk`."
        for source in manifest.sources
    ]
    span = f"{manifest.previous_revision[:12]}...{manifest.revision[:12]}"
    page = f"{github_page(manifest.upstream)}/compare/{manifest.previous_revision}...{manifest.revision}"
    if not manifest.previous_tag:
        lines += ["", "The first release of its kind."]
    elif manifest.previous_revision == manifest.revision:
        lines += ["", f"The same revision as {code(manifest.previous_tag)}, built again."]
    else:
        lines += ["", f"Since {code(manifest.previous_tag)}: {link(f'llvm-project {code(span)}', page)}."]
    if manifest.tests:
        passed = sum(test.counts.get("pass", 0) for test in manifest.tests)
        known = sum(test.counts.get("expected_fail", 0) for test in manifest.tests)
        suites = "1 suite" if len(manifest.tests) == 1 else f"{len(manifest.tests)} suites"
        tested = f"Tested: {suites} on these very files, {passed} tests passed"
        lines += ["", f"{tested}, {known} failed for known reasons." if known else f"{tested}."]
    lines += ["", markdown(manifest.notice)] if manifest.notice else []
    return lines


def known_failures(manifest: Manifest) -> list[tuple[ExpectedFailures, list[str]]]:
    """The known failures, each with the test targets that had them: ``smoke-*`` for all of several of a suite."""
    names: dict[str, list[str]] = {}
    for test in manifest.tests:
        names.setdefault(test.name.partition("-")[0], []).append(test.name)

    def shortened(runs: Collection[str]) -> list[str]:
        found: list[str] = []
        for suite, every in names.items():
            there = [name for name in every if name in runs]
            found += [f"{suite}-*"] if len(there) > 1 and there == every else there
        return found

    return [(row, shortened(runs)) for row, runs in manifest.known_failures.items()]


def _known(row: ExpectedFailures, where: Sequence[str]) -> str:
    def listed(names: Sequence[str]) -> str:
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return ", ".join([*map(code, names[:_SHOWN]), *more])

    why = markdown(row.reason) + (f" ({link('details', row.link)})" if row.link else "")
    return f"- {listed(row.tests)}, in {listed(where)}: {why}"


def _relaxed(row: TestedRelaxed) -> str:
    tested = f"; tested with {', '.join(row.tested_with)}" if row.tested_with else ""
    return f"- {code(row.requirement)} for upstream's {code(row.upstream)}: {markdown(row.reason)}{markdown(tested)}"
