"""The releases between two ends, oldest first, that can be tried on this machine: from the index alone."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.python.requirements import canonical
from mlir_release.release.model.release_tags import LATEST, parse_tag
from mlir_release.use.find import Filter, Origin, find

if TYPE_CHECKING:
    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.latest.catalogue import Catalogue
    from mlir_release.release.model.release_index import CatalogueEntry


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Releases of one kind. ``left_out``: the others between the ends, by their tags, and why."""

    entries: tuple[CatalogueEntry, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The position of the newest."""
        return len(self.entries) - 1


def find_end(origin: Origin, wanted: str, option: str, *, older: bool) -> CatalogueEntry:
    """The release that a person means by a tag, by ``latest``, by a date, or by a revision of LLVM.

    Of a date, it is the newest snapshot whose LLVM commit is not later. Where no snapshot is at a revision, it is the
    nearest one outside of the range.

    :param older: whether it is the older end of the range
    :raises UsageError: ``release-not-published``, ``revision-unknown``, ``option-invalid``
    """
    if parse_tag(wanted) is not None:
        entry = origin.catalogue.find(wanted)
        if entry is None:
            raise UsageError(
                "release-not-published",
                f"{option} {wanted} is not published",
                where=origin.where,
                remedy="give the tag of a release (mlir-release release list), a date, or a revision of LLVM",
            )
        return entry
    if older and _DATE.fullmatch(wanted) and wanted > f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}":
        raise UsageError("option-invalid", f"{option} {wanted} is in the future", remedy="give a date in the past")
    asked = f"before:{wanted}T23:59:59" if _DATE.fullmatch(wanted) else "" if wanted == LATEST else wanted
    among = Filter(kind="snapshot", yanked=wanted != LATEST)
    found = find(origin, asked, wanted=among)
    side = "before" if older else "after"
    near = next((match for match in found.near if match.relation == side and not match.diverged), None)
    if found.answer is None and near is not None:
        console.say(f"    {option} {wanted}: {near.entry.tag} is the nearest snapshot, {near.distance}")
        return near.entry
    return found.need()


def line_up(
    catalogue: Catalogue,
    good: CatalogueEntry,
    bad: CatalogueEntry,
    *,
    fixed: bool,
    python: Python,
    distribution: str,
    yanked: bool,
) -> Line:
    """The releases from the older end to the newer one.

    :param fixed: whether the bad one is the older
    :param yanked: whether those between the ends are tried although they are yanked
    :raises UsageError: ``option-invalid``: the ends are of different kinds, the same, or the wrong way round
    :raises VerificationError: ``no-fitting-wheel``: an end has none
    """
    old, new = (bad, good) if fixed else (good, bad)
    kinds, what = [end.row.order.kind for end in (old, new)], ""
    if old.tag == new.tag:
        what, remedy = f"--good and --bad are the same release, {old.tag}", "give two releases"
    elif kinds[0] != kinds[1]:
        what = f"{old.tag} is a {kinds[0]} release, and {new.tag} is a {kinds[1]} one"
        remedy = "give two snapshots, or two numbered releases: branches of LLVM do not follow each other"
    elif old.row.order > new.row.order and fixed:
        what = f"--bad {old.tag} is newer than --good {new.tag}"
        remedy = "leave out --fixed, to find the release that broke the command"
    elif old.row.order > new.row.order:
        what = f"--good {old.tag} is newer than --bad {new.tag}"
        remedy = "swap them; or add --fixed, to find the first release that works again"
    if what:
        raise UsageError("option-invalid", what, remedy=remedy)
    between: list[CatalogueEntry] = []
    for entry in catalogue.walk():
        if entry.row.order.kind == old.row.order.kind and old.row.order <= entry.row.order <= new.row.order:
            between.append(entry)
        if entry.row.created_at < old.row.created_at:
            break  # older months of the index are not read
    between.sort(key=lambda entry: entry.row.order)
    fitting = [entry for entry in between if _fits(entry, python, distribution)]
    for end in (old, new):
        if end not in fitting:
            near = ", ".join(entry.tag for entry in (*fitting[:1], *fitting[1:][-1:]))
            raise VerificationError(
                "no-fitting-wheel",
                f"{end.tag} has no wheel of {distribution} for CPython {python.name} on this machine",
                where=str(python.executable),
                remedy="choose another CPython with --python, or other ends"
                + (f": of those between, the first and the last with such a wheel are {near}" if near else ""),
            )
        if end.yanked is not None:
            console.warn(f"{end.tag} is yanked: {end.yanked}")
    left_out = {entry.tag: "no wheel for this machine" for entry in between if entry not in fitting}
    if not yanked:
        ends = (old, new)
        left_out |= {e.tag: f"yanked: {e.yanked}" for e in fitting if e.yanked is not None and e not in ends}
    return Line(entries=tuple(entry for entry in fitting if entry.tag not in left_out), left_out=left_out)


def _fits(entry: CatalogueEntry, python: Python, distribution: str) -> bool:
    name = canonical(distribution)
    stem = f"{name.replace('-', '_')}-{entry.row.version}"
    for wheel in entry.wheels:
        with suppress(ValueError):  # an index may list what is no name of a wheel
            if canonical(wheel.distribution) == name and python.wheel_rank(f"{stem}-{wheel.tags}.whl") is not None:
                return True
    return False
