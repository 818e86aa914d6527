"""Require a platform's wheels: the release that proves them, and the edit of the matrix's file, as a pull request.

A row that nobody has ever built must not hold up releases. Once a release has been published with all of a row's wheels
and tests, built on that platform's own runners, the row can be required; a person reviews that, and ``main`` is not
touched.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.foreign import code, link, markdown
from mlir_release.forge.base import need_services
from mlir_release.forge.files import head_of, text_at
from mlir_release.model.matrix import expand_on
from mlir_release.model.release_settings import TARGETS_FILE
from mlir_release.model.release_tags import line_file, parse_tag
from mlir_release.model.targets import LineTargets, Targets
from mlir_release.release.release_assets import RemoteRelease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.forge.base import Forge
    from mlir_release.model.manifest import Manifest

#: How many of the newest published releases are looked at: a month of two a day.
RECENT = 60


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A release that was built with wheels of a platform."""

    runtime: str
    tag: str
    rows: tuple[int, ...]  #: of ``[[target]]``, from 0: all of their tests passed in this release
    tests: int  #: that passed in those rows' suites


@dataclass(frozen=True, kw_only=True)
class PromoteOutcome:
    """What was proposed, or, with ``dry_run``, would be."""

    proof: Proof
    rows: tuple[str, ...]  #: that become required: ``mlir on windows-x64``
    file: str  #: the matrix
    diff: str  #: of the file
    branch: str  #: of the pull request
    url: str = ""  #: of the pull request; empty for a dry run, and where there is nothing to change

    def text(self) -> str:
        """What proves it, the edit, and where it can be reviewed."""
        proof = self.proof
        lines = [f"{proof.runtime} is proven by {proof.tag}: {proof.tests} tests passed in {', '.join(self.rows)}"]
        if not self.diff:
            return f"{lines[0]}\n{self.file} says so already"
        return "\n".join([*lines, self.diff.rstrip("\n"), *([f"review it: {self.url}"] if self.url else [])])


def find_proof(targets: LineTargets, runtime: str, manifests: Iterable[Manifest], *, file: str = TARGETS_FILE) -> Proof:
    """The first release in which every test of at least one row of a runtime's own CPythons has passed.

    A row with other CPythons than the runtime's is an experiment of its own, which this leaves alone.

    :param manifests: of published releases, the newest first
    :param file: the matrix
    :raises UsageError: ``option-invalid``, ``config-invalid``
    :raises NeedsPersonError: ``release-not-ready``
    """
    if runtime not in targets.runtime:
        raise UsageError(
            "option-invalid",
            f"{file} has no runtime {runtime!r}",
            why=f"it has {', '.join(targets.runtime)}",
            remedy="name one of them",
        )
    rows = {
        number: {test.name for wheel in expand_on(targets, row, runtime) for test in wheel.tests if test.gates}
        for number, row in enumerate(targets.target)
        if runtime in row.all_runtimes and row.pythons is None and row.suites
    }
    if not rows:
        raise UsageError(
            "config-invalid",
            f"no row of {file} tests wheels of {runtime} for its own CPythons",
            remedy="add a [[target]] row with suites and required = false; a release then shows whether they pass",
        )
    missing: dict[str, set[str]] = {}
    for manifest in manifests:
        passed = {test.name: test.counts.get("pass", 0) for test in manifest.tests}
        proven = tuple(number for number, names in rows.items() if names <= passed.keys())
        if proven:
            tests = sum(passed[name] for name in set().union(*(rows[number] for number in proven)))
            return Proof(runtime=runtime, tag=manifest.tag, rows=proven, tests=tests)
        missing.setdefault(manifest.tag, min((names - passed.keys() for names in rows.values()), key=len))
    tag, names = min(missing.items(), key=lambda item: len(item[1]), default=("", set()))
    raise NeedsPersonError(
        "release-not-ready",
        f"no release has proven {runtime}",
        why=f"the closest is {tag}, which lacks {', '.join(sorted(names))}" if tag else "nothing is published",
        remedy=f"see why its jobs fail: mlir-release release status; then promote {runtime} after the next release",
    )


def promoted(text: str, proof: Proof) -> str:
    """The matrix's file with a proven platform and its required rows; comments and order stay as they are.

    Of a row for several runtimes, the proven one gets a row of its own behind it: the others stay experimental.
    """
    import tomlkit

    document = tomlkit.parse(text)
    runtime: Any = document["runtime"]
    runtime[proof.runtime]["proven"] = proof.tag
    target: Any = document["target"]
    for number in sorted(proof.rows, reverse=True):  # a row that is added moves only those behind it
        row = target[number]
        if len(row.get("runtimes", ())) > 1 and not row["required"]:
            row["runtimes"].remove(proof.runtime)
            own = tomlkit.table()
            for key, value in row.items():
                own.append(*(("runtime", proof.runtime) if key == "runtimes" else (key, value)))
            own.add(tomlkit.nl())
            target.insert(number + 1, own)
            row = own
        row["required"] = True
    return tomlkit.dumps(document)


def promote(
    forge: Forge, runtime: str, *, branch: str, line: str | None = None, dry_run: bool = False
) -> PromoteOutcome:
    """Open, or renew, the pull request that requires a platform's wheels.

    :param branch: whose matrix is to be changed
    :param line: a release line with a matrix of its own, which one of its own releases must prove; None: snapshots
    :raises UsageError: ``needs-github``, ``branch-missing``, ``input-missing``, those of :func:`find_proof`
    :raises NeedsPersonError: ``release-not-ready``
    """
    services = need_services(forge)
    head = head_of(forge, branch)
    file, kind = (TARGETS_FILE, Targets) if line is None else (line_file(line), LineTargets)
    text = text_at(forge, file, head)
    targets = kind.parse(text, where=f"{file} at {head[:12]}", file=file)
    newest = (release for release in forge.published_newest_first() if line in (None, _line_of(release.tag)))
    manifests = (RemoteRelease(forge, release).manifest() for release in islice(newest, RECENT))
    proof = find_proof(targets, runtime, manifests, file=file)
    # A newer proof changes nothing.
    says_all = targets.runtime[runtime].proven and all(targets.target[number].required for number in proof.rows)
    changed = text if says_all else promoted(text, proof)
    kind.parse(changed, where=file, file=file)
    place = f"promote/{runtime}" if line is None else f"promote/{line}/{runtime}"
    outcome = PromoteOutcome(
        proof=proof,
        rows=tuple(f"{targets.target[number].llvm} on {runtime}" for number in proof.rows),
        file=file,
        diff="".join(difflib.unified_diff(text.splitlines(True), changed.splitlines(True), file, file)),
        branch=place,
    )
    if dry_run or not outcome.diff:
        return outcome
    of_line = f" in releases of LLVM {line}" if line is not None else ""
    title = f"Require {runtime}{of_line}, which {proof.tag} proves"
    at = forge.head(place)
    if at is None or forge.read(file, commit=at) != changed.encode():
        forge.commit(place, expected=at, base=head, files={file: changed.encode()}, message=f"{title}\n")
    body = _body(forge, proof, outcome.rows, "snapshot" if line is None else f"release of LLVM {line}")
    url = services.pulls.ensure_draft(branch=place, base=branch, title=title, body=body)
    services.pulls.mark_ready(branch=place)
    return replace(outcome, url=url)


def _line_of(name: str) -> str | None:
    tag = parse_tag(name)
    return tag.line if tag is not None else None


def _body(forge: Forge, proof: Proof, rows: Sequence[str], kind: str) -> str:
    return (
        f"{link(markdown(proof.tag), forge.page_url(proof.tag))} was published with wheels that were built on the "
        f"runners of {code(proof.runtime)}; {proof.tests} tests passed on them.\n\n"
        f"From the next {markdown(kind)} on, a release waits for: {markdown(', '.join(rows))}. If that platform "
        "breaks, releases wait until it is fixed, or someone waives it.\n\nThis changes nothing before it is merged.\n"
    )
