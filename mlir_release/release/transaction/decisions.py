"""What only a person can decide: waive a target, abandon a tag, yank what is published, discard what was built.

All but the last are recorded on the forge with who, when and why. Each can be repeated: a decision that was taken
already is returned as it was taken first.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir_release.builder.model.names import WheelKey
from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.programs.races import Races
from mlir_release.release.forge.base import BranchMoved, Forge
from mlir_release.release.forge.files import head_of
from mlir_release.release.model.manifest import MANIFEST_NAME, Waiver
from mlir_release.release.model.matrix import Matrix, unknown_target
from mlir_release.release.model.yanks import YANKS_PATH, Yank, format_yanks, parse_yanks
from mlir_release.release.pinning.state import abandon_tag, find_state
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX
from mlir_release.release.transaction.assets import files_of_wheel
from mlir_release.release.transaction.draft import Draft, tag_abandoned
from mlir_release.release.transaction.release_assets import waiver_name


@dataclass(frozen=True, kw_only=True)
class RecordedDecision:
    """A decision that is recorded on the forge. ``new`` is False for one that was recorded already."""

    kind: str  #: ``waived``, ``abandoned``, ``yanked``
    tag: str
    subject: str  #: target or file; empty for the whole release
    reason: str
    by: str
    at: str  #: UTC, ``2026-11-20T12:00:00Z``; empty where it was not recorded
    new: bool

    @classmethod
    def of(cls, kind: str, tag: str, subject: str, entry: Waiver | Yank, *, new: bool) -> RecordedDecision:
        """As it is recorded."""
        return cls(kind=kind, tag=tag, subject=subject, reason=entry.reason, by=entry.by, at=entry.at, new=new)

    def text(self) -> str:
        """One line for people."""
        what = f"{self.subject} of {self.tag}" if self.subject else self.tag
        signed = " ".join(part for part in (f"by {self.by}" if self.by else "", self.at) if part)
        why = f": {self.reason}" if self.reason else ""
        return f"{self.kind} {what}{why}" if self.new else f"{what} was {self.kind} already ({signed}){why}"


# -- waive ----------------------------------------------------------------------------------------------------------


def waive(forge: Forge, tag: str, target: str, reason: str, *, dry_run: bool = False) -> RecordedDecision:
    """Let ``tag`` be published although ``target`` (a wheel's or a test's name) is missing or fails.

    The waiver is an asset of the draft, so that it is taken by one person once, and lost with the draft.

    :raises UsageError: ``option-invalid``, ``tag-missing``
    :raises NeedsPersonError: ``already-published``, ``tag-abandoned``
    """
    reason = _one_line(reason)
    draft = _open_draft(forge, tag)
    names = _waivable(draft.due)  # by the matrix of the tag's own commit
    if target not in names:
        raise unknown_target(target, names)
    waiver = Waiver(target=target, reason=reason, by=forge.whoami(), at=format_time(forge.now()))
    return _record_waiver(draft, waiver, dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class Waivers:
    """The waivers of all targets that a filter chose."""

    tag: str
    only: str
    decisions: tuple[RecordedDecision, ...]

    def text(self) -> str:
        """One line for each."""
        return "\n".join(decision.text() for decision in self.decisions)


def waive_only(forge: Forge, tag: str, only: str, reason: str, *, dry_run: bool = False) -> Waivers:
    """Waive every required target of ``tag`` that the filter ``only`` accepts and that is missing or fails.

    Of a platform, these are the wheels that are not there, and the suites that have not passed on those that are: a
    suite that gates no wheel any more needs no waiver. Repeated, it waives what has failed since.

    :raises UsageError: as :func:`waive`; ``option-invalid``; ``nothing-to-do``, with the targets that could be waived
    :raises NeedsPersonError: as :func:`waive`
    """
    reason = _one_line(reason)
    draft = _open_draft(forge, tag)
    names = _waivable(draft.due.only(only))
    known = [name for name in sorted(draft.waived()) if name in names]
    lacking = draft.card().lacking_required
    wanted = [name for name in lacking if name in names]
    if not known and not wanted:
        raise UsageError(
            "nothing-to-do",
            f"no required target of {tag} that fits {only!r} is missing or fails",
            where=forge.description,
            remedy=f"missing or failing are: {', '.join(lacking) or 'none'}",
        )
    by, at = forge.whoami(), format_time(forge.now())
    waivers = (Waiver(target=name, reason=reason, by=by, at=at) for name in (*known, *wanted))
    done = tuple(_record_waiver(draft, waiver, dry_run=dry_run) for waiver in waivers)
    return Waivers(tag=tag, only=only, decisions=done)


def waive_either(
    forge: Forge, tag: str, *, target: str | None, only: str | None, reason: str, dry_run: bool = False
) -> RecordedDecision | Waivers:
    """:func:`waive` a target, or :func:`waive_only` what a filter accepts. :raises UsageError: ``option-invalid``"""
    if only is not None and target is None:
        return waive_only(forge, tag, only, reason, dry_run=dry_run)
    if target is not None and only is None:
        return waive(forge, tag, target, reason, dry_run=dry_run)
    raise UsageError(
        "option-invalid",
        "name a target or give --only, not both" if target else "there is nothing that says what to waive",
        where=tag,
        remedy=f"mlir-release release waive {tag} TARGET --reason …, or "
        f"mlir-release release waive {tag} --only 'os=windows' --reason …",
    )


def _open_draft(forge: Forge, tag: str) -> Draft:
    """The draft of a pending tag."""
    state = find_state(forge, tag)
    if state.state == "abandoned":
        raise tag_abandoned(tag, why=state.reason)
    if state.state == "published" or not (draft := Draft.of(forge, state)).release.draft:
        raise _already_published(tag, "waive a target of")
    return draft


def _record_waiver(draft: Draft, waiver: Waiver, *, dry_run: bool) -> RecordedDecision:
    """Add a waiver to a draft; one that is there already counts."""
    known = draft.waiver(waiver.target)
    if known is None and not dry_run:
        put = draft.put_bytes(waiver_name(waiver.target), waiver.to_text().encode())
        if put.action == "kept":  # someone else waived it at the same moment
            known = draft.waiver(waiver.target)
    return RecordedDecision.of("waived", draft.tag, waiver.target, known or waiver, new=known is None)


def _waivable(matrix: Matrix) -> list[str]:
    """The names that a waiver can have: of wheels and of each CPython's share in one, and of tests.

    What only a tag leaves out can be waived, too.
    """
    names = [name for wheel in matrix.wheels for name in (wheel.name, *(member.name for member in wheel.members))]
    names += [row.name for row in matrix.excluded if row.claimed]
    return list(dict.fromkeys((*names, *(test.name for test in matrix.tests))))


# -- abandon --------------------------------------------------------------------------------------------------------


def abandon(forge: Forge, tag: str, reason: str, *, dry_run: bool = False) -> RecordedDecision:
    """Abandon a pending tag for good: that is recorded, and its drafts are deleted.

    :raises UsageError: ``option-invalid``, ``tag-missing``
    :raises NeedsPersonError: ``already-published``
    :raises ConflictError: ``changed-meanwhile``
    """
    reason = _one_line(reason)
    state = find_state(forge, tag)
    if state.state == "published":
        raise _already_published(state.name, "abandon")
    by, at = forge.whoami(), format_time(forge.now())
    new = state.state != "abandoned"
    if not dry_run:
        # Also if it is recorded: the process that did may have been killed before it deleted the drafts.
        new = abandon_tag(forge, state, reason=reason, by=by) and new
    if not new:
        reason, by, at = state.reason, "", ""
    return RecordedDecision(kind="abandoned", tag=tag, subject="", reason=reason, by=by, at=at, new=new)


# -- yank -----------------------------------------------------------------------------------------------------------


def yank(
    forge: Forge, tag: str, reason: str, *, branch: str, file: str = "", dry_run: bool = False
) -> RecordedDecision:
    """Hide a published release (or one ``file``) from all who did not pin it, by an entry in ``yanked.toml``.

    :param branch: the branch that holds the pin and ``yanked.toml``
    :raises UsageError: ``option-invalid``, ``tag-missing``, ``branch-missing``, ``config-invalid``
    :raises NeedsPersonError: ``release-pending``
    :raises ConflictError: if the branch keeps moving
    """
    reason = _one_line(reason)
    state = find_state(forge, tag)
    release = forge.published(tag)
    if release is None:
        raise NeedsPersonError(
            "release-pending",
            f"{tag} is {state.state}: there is nothing to yank",
            where=forge.description,
            remedy=f"a pending release is abandoned with mlir-release release abandon {tag} --reason …",
        )
    names = [asset.name for asset in release.assets]
    if file and file not in names:
        raise UsageError(
            "option-invalid",
            f"{tag} has no file called {file!r}",
            where=forge.description,
            remedy=f"files: {', '.join(name for name in names if WheelKey.of_file(name)) or ', '.join(names)}",
        )
    wanted = Yank(tag=tag, file=file, reason=reason, by=forge.whoami(), at=format_time(forge.now()))
    races = Races(where=f"{branch} of {forge.description}")
    while True:
        head = head_of(forge, branch)
        content = (forge.read(YANKS_PATH, commit=head) or b"").decode("utf-8", errors="replace")
        yanks = parse_yanks(content, where=f"{YANKS_PATH} on {branch}")
        known = next((yank for yank in yanks if yank.tag == tag and yank.file in ("", file)), None)
        if known is not None or dry_run:
            return RecordedDecision.of("yanked", tag, file, known or wanted, new=known is None)
        # Sorted, one table an entry: two people's yanks of different releases merge without a conflict.
        text = format_yanks(sorted([*yanks, wanted], key=lambda yank: (yank.tag, yank.file)))
        subject = f"Yank {f'{file} of ' if file else ''}{tag}"
        message = format_message(subject, reason, {"Yanked-By": wanted.by})
        try:
            forge.commit(branch, expected=head, files={YANKS_PATH: text.encode()}, message=message)
            return RecordedDecision.of("yanked", tag, file, wanted, new=True)
        except BranchMoved as error:
            races.retry(f"yank {tag}", error)


# -- discard -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DiscardOutcome:
    """What was removed from a draft."""

    tag: str
    target: str
    removed: tuple[str, ...]

    def text(self) -> str:
        """One line."""
        files = ", ".join(self.removed) if self.removed else "nothing was there"
        return f"{self.tag}: {self.target} starts over: {files}"


def discard(draft: Draft, target: str, *, dry_run: bool = False) -> DiscardOutcome:
    """Remove a target's files from the draft, so that it is built (or tested) again.

    :param target: a wheel target (its reports go too), a test target, or the name of an asset
    :raises UsageError: ``option-invalid``, ``release-unsuitable``
    """
    draft.need_draft()
    release, matrix = draft.release, draft.matrix
    # The manifest first, because it would be wrong at once; the wheel last, because it leads to the other files.
    names: list[str] = [MANIFEST_NAME]
    if any(test.name == target for test in matrix.tests):
        names.append(target + REPORT_SUFFIX)
    elif release.asset(target) is not None:
        names += files_of_wheel(target)
    else:
        wheel = matrix.wheel(target)
        # A platform's suites test the SDK's tools, so they stay valid without this wheel.
        names += [test.name + REPORT_SUFFIX for test in wheel.tests if test.python is not None]
        for asset in release.assets:
            if WheelKey.of_file(asset.name) == wheel.slot:
                names += files_of_wheel(asset.name)
    names += [name + BUNDLE_SUFFIX for name in names if name.endswith((MANIFEST_NAME, REPORT_SUFFIX))]
    doomed = [asset for asset in map(release.asset, dict.fromkeys(names)) if asset is not None]
    for asset in () if dry_run else doomed:
        draft.forge.delete_asset(release, asset)
    return DiscardOutcome(tag=draft.tag, target=target, removed=tuple(asset.name for asset in doomed))


# -- what all check -------------------------------------------------------------------------------------------


def _one_line(reason: str) -> str:
    line = " ".join(reason.split())
    if not line:
        raise UsageError(
            "option-invalid",
            "a decision needs a reason",
            why="it is shown wherever the decision leaves a gap",
            remedy="give one with --reason",
        )
    return line


def _already_published(tag: str, what: str) -> NeedsPersonError:
    return NeedsPersonError(
        "already-published",
        f"can't {what} {tag}: it is published, and never changes again",
        where=tag,
        remedy=f"if nobody should use it: mlir-release release yank {tag} --reason …",
    )
