"""``[release]`` of ``targets.toml``: where revisions come from, where the pins live, and how releases are published."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlir_release.builder.model.orders import NOTICE
from mlir_release.ground.documents.decode import Line, MalformedError, VariableName, doc, from_toml
from mlir_release.ground.errors import UsageError
from mlir_release.release.model.pin_commit import PINS_BRANCH

#: Path of the file in a release repository.
TARGETS_FILE = "targets.toml"

#: Days of snapshots on the shared pages: a page that grows for ever costs every pip more each day. A snapshot's own
#: page links its wheels for ever.
LINKED_DAYS = 90

#: The branch of the signed pointer to the newest snapshot.
LATEST_BRANCH = "latest"

#: At most ten years, which no page of links survives.
Days = Annotated[int, Meta(ge=1, le=3650, title="a whole number of days from 1 to 3650")]

#: At most a year: more is a mistake, and would leave the calendar.
Hours = Annotated[int, Meta(ge=1, le=8760, title="a whole number of hours from 1 to 8760")]


class SettingsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file. What its types do not say, ``__post_init__`` checks."""


#: Branches that git, GitHub and a job's log all show as they are.
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:[./][A-Za-z0-9_-]+)*")


class GreenPolicy(SettingsTable, frozen=True):
    """What "green" means for `snapshot --policy green`: a revision on which every check has succeeded."""

    checks: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Names of check runs, or contexts of commit statuses.")
    ]
    depth: Annotated[
        int, Meta(ge=1, title="a number from 1 on"), doc("How many of the newest upstream commits are looked at.")
    ] = 50
    fallback: Annotated[Literal["head", "stop"], doc("If none of them is green: take the newest commit, or stop.")] = (
        "stop"
    )


class ReleaseConfig(SettingsTable, frozen=True):
    """Where revisions come from, and where the toolkit and the pins live."""

    upstream: Annotated[str, doc("URL or path of llvm-project that git can fetch from.")]
    upstream_branch: Annotated[str, doc("The branch that snapshots follow.")] = "main"
    base: Annotated[
        str,
        doc(
            "URL or path of the llvm-project that upstream is a fork of. Releases then have upstream's commits with "
            "carried patches, which they list. Empty: upstream is llvm-project itself, and nothing is carried."
        ),
    ] = ""
    most_carried: Annotated[
        int, Meta(ge=1, le=100, title="a whole number from 1 to 100"), doc("With base: the most patches of a release.")
    ] = 20
    branch: Annotated[
        str, doc("The protected branch of the release repository, which the toolkit of every release comes from.")
    ] = "main"
    pins: Annotated[str, doc("The branch that snapshots are pinned on, by commits that change nothing else.")] = (
        PINS_BRANCH
    )
    workflow: Annotated[str, doc("The workflow that is dispatched on each new tag.")] = "release.yml"
    deadline: Annotated[
        Hours,
        doc("Hours from its tag after which a snapshot is published once its required targets are all there."),
    ] = 24
    superseded_after: Annotated[
        Hours,
        doc("Hours from its tag after which a snapshot that is not published is abandoned, if there is a newer one."),
    ] = 72
    pypi_candidates: Annotated[
        bool, doc("Whether numbered releases of LLVM's release candidates go to PyPI, too, as pre-releases.")
    ] = False
    provenance: Annotated[
        Literal["required", "none"] | None,
        doc(
            "Whether the files of releases must be signed by attest.yml. Without it they must on GitHub, and need not "
            "on a local forge. Private repositories need a Sigstore of their own, or none."
        ),
    ] = None
    linked_days: Annotated[
        Days, doc("Days of snapshots, back from the newest, that the shared pages link: latest/ and simple/.")
    ] = LINKED_DAYS
    notice: Annotated[
        Line, doc("A line on every page, in release notes and in the wheels' description; empty: no such line.")
    ] = NOTICE
    environment: Annotated[
        tuple[VariableName, ...],
        doc("Variables that builds and tests see besides those that compilers, CMake and Python need."),
    ] = ()
    latest_lifetime_days: Annotated[
        Days,
        doc(
            "Days that the signed pointer to the newest snapshot is valid for; the sweep renews it after half of them."
        ),
    ] = 14
    good_after_hours: Annotated[
        Hours, doc("Hours from its tag before which no snapshot becomes latest-good: time in which problems show.")
    ] = 24
    green: GreenPolicy | None = None

    def __post_init__(self) -> None:
        if not _BRANCH.fullmatch(self.pins) or self.pins.endswith(".lock"):
            raise MalformedError("pins", f"is {self.pins!r}, which is no plain name of a branch", 'write "snapshots"')
        if self.pins == self.branch:
            problem = f"is {self.pins!r}, as branch is, which only people may change"
            raise MalformedError("pins", problem, "name a branch that jobs may commit to, such as snapshots")
        if self.pins == LATEST_BRANCH:
            problem = f"is {self.pins!r}, the branch of the signed pointer to the newest snapshot"
            raise MalformedError("pins", problem, "name another one, such as snapshots")


class _Settings(Struct, frozen=True, kw_only=True):
    """The part of the file that readers of releases need."""

    release: ReleaseConfig


def parse_settings(content: str, *, where: str) -> ReleaseConfig:
    """Read ``[release]`` alone: who only reads releases need not have the projects that the other tables name.

    :raises UsageError: ``config-invalid``
    """
    try:
        return from_toml(content, _Settings).release
    except MalformedError as error:
        why, remedy = str(error), error.hint or "correct it; mlir-release matrix says more"
        raise mistake("[release]", why, remedy, where=where) from None


def mistake(place: str, why: str, remedy: str, *, where: str, file: str = TARGETS_FILE) -> UsageError:
    """The error about a mistake in a matrix's file.

    :param place: the table
    :param where: the file, and where it is
    """
    return UsageError("config-invalid", f"{file} has a mistake in {place}", where=where, why=why, remedy=remedy)
