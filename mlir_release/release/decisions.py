"""The ways out that only a person can take: waive a target, abandon a tag, yank what is published.

Each is recorded on the forge with who, when and why, and can be repeated: a decision that stands already is returned
as it was taken first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, NeedsPersonError, UsageError
from mlir_release.forge.base import BranchMoved
from mlir_release.forge.files import head_of, matrix_at
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import Waiver, format_time
from mlir_release.model.release_tags import parse_numbered, parse_snapshot
from mlir_release.model.trailers import format_message
from mlir_release.model.yanks import YANKS_PATH, Yank, format_yanks, parse_yanks
from mlir_release.release.draft import WAIVER_PREFIX, WAIVER_SUFFIX, find_release, put_bytes, read_waivers
from mlir_release.snapshot.state import TagState, abandon_tag, states

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge, Release

#: How often the branch may move while a yank is being committed.
_YANK_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision that stands on the forge. ``new`` is False for one that stood there already."""

    kind: str  #: ``waived``, ``abandoned``, ``yanked``
    tag: str
    subject: str  #: target or file; empty for the whole release
    reason: str
    by: str
    at: str  #: UTC, ``2026-11-20T12:00:00Z``; empty where it was not recorded
    new: bool

    def text(self) -> str:
        """One line for people."""
        what = f"{self.subject} of {self.tag}" if self.subject else self.tag
        signed = " ".join(part for part in (f"by {self.by}" if self.by else "", self.at) if part)
        why = f": {self.reason}" if self.reason else ""
        return f"{self.kind} {what}{why}" if self.new else f"{what} was {self.kind} already ({signed}){why}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


# -- waive ----------------------------------------------------------------------------------------------------------


def waive(forge: Forge, tag: str, target: str, reason: str, *, dry_run: bool = False) -> Decision:
    """Let ``tag`` be published although ``target`` (a wheel's or a test's name) is missing or fails.

    The waiver is an asset of the draft, so that it is taken by one person once, and lost with the draft.

    :raises UsageError: ``reason-missing``, ``tag-invalid``, ``tag-unknown``, ``target-unknown``, ``draft-missing``
    :raises NeedsPersonError: ``already-published``, ``tag-abandoned``
    """
    reason = _one_line(reason)
    state = _find(forge, tag)
    _need_pending(state, "waive a target of")
    _check_target(forge, state, target)
    release = find_release(forge, tag)
    _need_draft(release)
    known = _read_waiver(forge, release, target)
    waiver = known or Waiver(target=target, reason=reason, by=forge.whoami(), at=format_time(forge.now()))
    if known is None and not dry_run:
        release, put = put_bytes(forge, release, f"{WAIVER_PREFIX}{target}{WAIVER_SUFFIX}", waiver.to_text().encode())
        if put.action == "kept":  # somebody else waived it at the same moment
            known = _read_waiver(forge, release, target)
    standing = known or waiver
    return Decision(
        kind="waived",
        tag=tag,
        subject=target,
        reason=standing.reason,
        by=standing.by,
        at=standing.at,
        new=known is None,
    )


def _read_waiver(forge: Forge, release: Release, target: str) -> Waiver | None:
    with scratch_folder("waivers") as folder:
        return read_waivers(forge, release, folder).get(target)


def _check_target(forge: Forge, state: TagState, target: str) -> None:
    """A waiver must name a target of the matrix that the tag is built by: the one in its own commit."""
    matrix = matrix_at(forge, state.commit).due(state.tag)
    names = [*(wheel.name for wheel in matrix.wheels), *(test.name for test in matrix.tests)]
    if target not in names:
        import difflib

        close = ", ".join(difflib.get_close_matches(target, names, 3)) or ", ".join(names)
        raise UsageError(
            "target-unknown",
            f"{state.name} has no target called {target!r}",
            where=state.commit,
            remedy=f"targets: {close}",
        )


# -- abandon --------------------------------------------------------------------------------------------------------


def abandon(forge: Forge, tag: str, reason: str, *, dry_run: bool = False) -> Decision:
    """Give a pending tag up for ever: it is recorded as abandoned, and its drafts are deleted.

    :raises UsageError: ``reason-missing``, ``tag-invalid``, ``tag-unknown``
    :raises NeedsPersonError: ``already-published``
    :raises ConflictError: ``published-meanwhile``
    """
    reason = _one_line(reason)
    state = _find(forge, tag)
    if state.state == "published":
        raise _already_published(state.name, "abandon")
    by, at = forge.whoami(), format_time(forge.now())
    new = state.state != "abandoned"
    if not dry_run:
        # Also if it is recorded: whoever recorded it may have been killed before the drafts were deleted.
        new = abandon_tag(forge, state, reason=reason, by=by) and new
    return Decision(
        kind="abandoned",
        tag=tag,
        subject="",
        reason=reason if new else state.reason,
        by=by if new else "",
        at=at if new else "",
        new=new,
    )


# -- yank -----------------------------------------------------------------------------------------------------------


def yank(forge: Forge, tag: str, reason: str, *, branch: str, file: str = "", dry_run: bool = False) -> Decision:
    """Let nobody get a published release (or its ``file``) who did not pin it: an entry in ``yanked.toml``.

    :param branch: the branch that holds the pin and ``yanked.toml``
    :raises UsageError: ``reason-missing``, ``tag-invalid``, ``tag-unknown``, ``file-unknown``, ``branch-missing``,
        ``yanks-invalid``
    :raises NeedsPersonError: ``not-published``
    :raises ConflictError: if the branch keeps moving
    """
    reason = _one_line(reason)
    state = _find(forge, tag)
    _check_file(forge, state, file)
    wanted = Yank(tag=tag, file=file, reason=reason, by=forge.whoami(), at=format_time(forge.now()))
    for _ in range(_YANK_ATTEMPTS):
        head = head_of(forge, branch)
        content = (forge.read(YANKS_PATH, commit=head) or b"").decode("utf-8", errors="replace")
        yanks = parse_yanks(content, where=f"{YANKS_PATH} on {branch}")
        known = next((yank for yank in yanks if yank.tag == tag and yank.file in ("", file)), None)
        if known is not None or dry_run:
            return _yanked(known or wanted, file, new=known is None)
        # Sorted, one table an entry: two people's yanks of different releases merge without a conflict.
        text = format_yanks(sorted([*yanks, wanted], key=lambda yank: (yank.tag, yank.file)))
        subject = f"Yank {f'{file} of ' if file else ''}{tag}"
        message = format_message(subject, reason, {"Yanked-By": wanted.by})
        try:
            forge.commit(branch, expected=head, files={YANKS_PATH: text.encode()}, message=message)
        except BranchMoved:
            continue
        return _yanked(wanted, file, new=True)
    raise ConflictError(
        "branch-contested",
        f"{branch} moved {_YANK_ATTEMPTS} times while {tag} was being yanked",
        where=forge.description,
        remedy="wait for the other commits to end, then run this again",
    )


def _yanked(yank: Yank, file: str, *, new: bool) -> Decision:
    return Decision(kind="yanked", tag=yank.tag, subject=file, reason=yank.reason, by=yank.by, at=yank.at, new=new)


def _check_file(forge: Forge, state: TagState, file: str) -> None:
    if state.state != "published":
        raise NeedsPersonError(
            "not-published",
            f"{state.name} is {state.state}: there is nothing to yank",
            where=forge.description,
            remedy=f"a pending release is given up with mlir-release release abandon {state.name} --reason …",
        )
    names = [asset.name for asset in find_release(forge, state.name).assets]
    if file and file not in names:
        raise UsageError(
            "file-unknown",
            f"{state.name} has no file called {file!r}",
            where=forge.description,
            remedy=f"files: {', '.join(name for name in names if name.endswith('.whl')) or ', '.join(names)}",
        )


# -- what all three check -------------------------------------------------------------------------------------------


def _one_line(reason: str) -> str:
    line = " ".join(reason.split())
    if not line:
        raise UsageError(
            "reason-missing",
            "a decision needs a reason",
            why="it is shown to everybody who meets the gap that it makes",
            remedy="give one with --reason",
        )
    return line


def _find(forge: Forge, tag: str) -> TagState:
    """The state of a release tag of ours. :raises UsageError: ``tag-invalid``, ``tag-unknown``"""
    parsed = parse_numbered(tag) if tag.startswith("llvm-") else parse_snapshot(tag)
    for state in states(forge):
        if state.tag == parsed:
            return state
    raise UsageError(
        "tag-unknown",
        f"there is no release tag {tag} that mlir-release made",
        where=forge.description,
        remedy="mlir-release tag list shows the tags",
    )


def _need_pending(state: TagState, what: str) -> None:
    if state.state == "published":
        raise _already_published(state.name, what)
    if state.state == "abandoned":
        raise NeedsPersonError(
            "tag-abandoned",
            f"can't {what} {state.name}: it was abandoned",
            where=state.name,
            why=state.reason,
            remedy="make another release: mlir-release snapshot --force, or mlir-release number",
        )


def _need_draft(release: Release) -> None:
    if not release.draft:
        raise _already_published(release.tag, "waive a target of")


def _already_published(tag: str, what: str) -> NeedsPersonError:
    return NeedsPersonError(
        "already-published",
        f"can't {what} {tag}: it is published, and nothing of it changes any more",
        where=tag,
        remedy=f"if nobody should use it: mlir-release release yank {tag} --reason …",
    )
