"""One lock for the members of a set, whose versions are built from one LLVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from mlir_release.extras.sets.members import Versions, listed, released
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, convert
from mlir_release.ground.errors import NeedsPersonError, VerificationError
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.storage.files import write_all
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.instructions.dependencies import lock_requirements
from mlir_release.release.instructions.lockfiles import own_package, pylock_document, requirement_lines
from mlir_release.release.model.manifest import LockedPackage, WheelEntry, fits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.sets.set_file import SetFile
    from mlir_release.release.judging.signed import SignedBy


@dataclass(frozen=True, kw_only=True)
class Known:
    """The members of a set, and the LLVM commits that any of them is built from."""

    members: Sequence[Versions]
    dates: Mapping[str, int]  #: of LLVM commits that upstream has, in seconds since 1970

    @property
    def common(self) -> list[str]:
        """The LLVM commits that all members are built from, newest first."""
        shared = set.intersection(*(set(member.llvm.values()) for member in self.members))
        return sorted(shared & self.dates.keys(), key=lambda sha: self.dates[sha], reverse=True)

    def versions(self, llvm: str) -> dict[str, str]:
        """The newest version of each member that is built from an LLVM; empty if there is none."""
        return {member.name: _newest(member, llvm) for member in self.members}

    def shown(self, llvm: str) -> str:
        """An LLVM commit for people, with its day."""
        return f"{llvm[:12]} of {datetime.fromtimestamp(self.dates[llvm], UTC):%Y-%m-%d}"


def _newest(member: Versions, llvm: str) -> str:
    return max((version for version, sha in member.llvm.items() if sha == llvm), key=Version, default="")


def know(given: SetFile, forge: str | None, signed_by: SignedBy, *, also: str = "") -> Known:
    """Ask the members' indexes and projects.

    :param forge: of members that are this toolkit's releases
    :param also: another LLVM commit, whose date is wanted
    :raises UsageError: ``input-missing``, ``option-invalid``, ``revision-unknown``
    :raises MachineError: ``network-failed``, ``tool-missing``
    """
    upstream = Upstream(given.upstream)
    if also:
        upstream.resolve(also)
    members = []
    for each in given.member:
        with console.step(f"find which LLVM each version of {canonical(each.distribution)} is built from"):
            member = released(each, forge, signed_by) if each.released else listed(each, upstream)
        count, left_out = len(member.llvm), len(member.left_out)
        console.say(f"    {count} versions" + (f", and {left_out} left out" if left_out else ""))
        members.append(member)
    dates = upstream.dates(sorted({sha for member in members for sha in member.llvm.values()} | ({also} - {""})))
    for member in members:
        strange = {version: sha for version, sha in member.llvm.items() if sha not in dates}
        member.left_out.update({version: f"upstream has no commit {sha}" for version, sha in strange.items()})
    return Known(members=members, dates=dates)


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A lock that was written, or would be."""

    llvm: str
    versions: Mapping[str, str]  #: by the members' distributions
    machines: tuple[str, ...]  #: CPythons and platforms that the whole set can be installed on
    files: tuple[str, ...]
    headline: str

    def text(self) -> str:
        """For people."""
        rows = [f"  {name} {version}" for name, version in self.versions.items()]
        where = f"  for {', '.join(self.machines)}" if self.machines else "  for any machine"
        return "\n".join([self.headline, *rows, where, *(f"  {path}" for path in self.files)])

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        names = ("llvm", "versions", "machines", "files")
        return {name: getattr(self, name) for name in names}


def lock_set(
    name: str, known: Known, output: Path, *, llvm: str = "", pythons: Sequence[CPython] = (), dry_run: bool = False
) -> Locked:
    """Write ``pylock.toml`` and ``requirements.txt``, whose members are built from one LLVM.

    :param name: of the set, for the files
    :param llvm: that commit; empty: the newest that all members have
    :param pythons: wheels for these alone; empty: for all that every member has
    :raises NeedsPersonError: ``release-not-ready``: the members don't fit together
    :raises VerificationError: ``no-fitting-wheel``, ``wheel-unsuitable``
    :raises MachineError: as :func:`know`
    """
    chosen = llvm or next(iter(known.common), "")
    pinned = known.versions(chosen)
    if not all(pinned.values()):
        wanted = chosen or max(
            known.dates, key=lambda sha: (sum(map(bool, known.versions(sha).values())), known.dates[sha]), default=""
        )
        when, lines = known.dates.get(wanted, 0), []
        for member in known.members:
            if version := _newest(member, wanted):
                lines.append(f"{member.name} {version} is")
                continue
            dated = sorted((known.dates[sha], sha) for sha in known.dates.keys() & set(member.llvm.values()))
            near = [("before", sha) for date, sha in dated if date <= when][-1:]
            near += [("after", sha) for date, sha in dated if date > when][:1]
            said = ", ".join(f"{where}: {_newest(member, sha)} from {known.shown(sha)}" for where, sha in near)
            lines.append(f"{member.name} is not; {said or 'no version of it has a known LLVM'}")
            lines += [f"  left out: {version}, {why}" for version, why in list(member.left_out.items())[:5]]
        asked = f"from {known.shown(wanted)}" if wanted else "from a known LLVM"
        raise NeedsPersonError(
            "release-not-ready",
            f"not all members are built {asked}" if chosen or not wanted else "no LLVM has a version of all members",
            why=f"built {asked}:\n" + "\n".join(lines),
            remedy="wait for the members that lag; make an mlir for another one's LLVM (mlir-release snapshot --policy "
            "pin-of:…); or leave a member out of the set",
        )
    headline = f"{name}: all from llvm-project {known.shown(chosen)}"
    found: dict[str, list[WheelEntry]] = {}
    urls: dict[str, str] = {}
    with scratch_folder("set") as scratch:
        for member in known.members:
            with console.step(f"read the wheels of {member.name} {pinned[member.name]}"):
                at = member.wheels(pinned[member.name], pythons, scratch)
            found[member.name] = [*at.values()]
            urls |= {wheel.filename: url for url, wheel in at.items()}
    every = {
        (CPython.of_tag(wheel.python), PlatformTag.parse(platform))
        for wheels in found.values()
        for wheel in wheels
        if wheel.python.startswith("cp")
        for platform in wheel.platforms
    }
    machines = [
        machine
        for machine in sorted(every, key=lambda machine: (machine[0], str(machine[1])))
        if all(any(fits(wheel.filename, *machine) for wheel in wheels) for wheels in found.values())
    ]
    everywhere = all(found.values()) and not every
    lacking = [str(python) for python in pythons if not everywhere and python not in {each for each, _ in machines}]
    if lacking or not (machines or everywhere):
        offered = [
            f"{name}: {' '.join(each.filename.removesuffix('.whl').split('-', 2)[2] for each in wheels)}"
            for name, wheels in found.items()
        ]
        raise VerificationError(
            "no-fitting-wheel",
            f"not every member has a wheel for {', '.join(lacking)}"
            if lacking
            else "no machine has wheels of all members",
            why="\n".join(offered),
            remedy="choose another CPython with --python, or another LLVM with --llvm",
        )
    requires: set[str] = set()  # what the members require of others
    for requiring, wheels in found.items():
        for line in dict.fromkeys(line for wheel in wheels for line in wheel.requires_dist):
            requirement = Requirement(line)
            other = canonical(requirement.name)
            if other not in pinned:
                requires.add(line)
            elif not requirement.specifier.contains(pinned[other], prereleases=True):
                raise NeedsPersonError(
                    "release-not-ready",
                    f"{requiring} {pinned[requiring]} requires {line}, and the set has {other} {pinned[other]}",
                    remedy="choose another LLVM with --llvm, or leave one of both out of the set",
                )
    local = any(url.startswith("file:") for url in urls.values())
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    with console.step("lock what the members depend on"):
        locked = lock_requirements(sorted(requires), machines, until=now, local=local) if requires else ()
    try:
        for name, wheels in found.items():
            rows = [{"url": urls[each.filename], "sha256": each.sha256, "size": each.size} for each in wheels]
            convert({"name": name, "version": pinned[name], "wheels": rows}, LockedPackage)
    except MalformedError as error:
        raise VerificationError(
            "wheel-unsuitable",
            "the index of a member gives addresses that no lock can name",
            why=str(error),
            remedy="tell those who publish it",
        ) from error
    lines = [f"# {headline}", "# pip install -r <this file>. A machine that a member has no wheel for gets an error."]
    for name, wheels in found.items():
        lines += [f"# {name} {pinned[name]}", *requirement_lines(name, wheels, urls)]
    lines.append("# What they depend on.")
    lines += [f"{each.name}=={each.version}" + (f" ; {each.marker}" if each.marker else "") for each in locked]
    own = [own_package(name, pinned[name], wheels, urls) for name, wheels in found.items()]
    texts = {
        "pylock.toml": f"# {headline}\n{pylock_document(own, locked)}",
        "requirements.txt": "\n".join(lines) + "\n",
    }
    if not dry_run:
        output.mkdir(parents=True, exist_ok=True)
        write_all(output, texts)
    return Locked(
        llvm=chosen,
        versions=pinned,
        machines=tuple(dict.fromkeys(f"{python} on {tag.platform}" for python, tag in machines)),
        files=() if dry_run else tuple(str(output / each) for each in texts),
        headline=headline,
    )
