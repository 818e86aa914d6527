"""Check a wheel's tags against its binaries, and find the platform tag that they qualify for.

auditwheel knows the manylinux policies, and abi3audit CPython's stable ABI. This module adds checks that they lack:
packed relative relocations (``DT_RELR``) that were linked without the version need which makes an older glibc refuse
them; extension modules for another interpreter than the tag names; every glibc newer than auditwheel's newest policy;
and the binaries of macOS and Windows.
"""

from __future__ import annotations

import re
import sys
import zipfile
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, TypedDict

from mlir_release.builder.sdk.elf import RELR_GLIBC
from mlir_release.builder.wheels.binaries import needed_libraries, qualified_tag, wrong_architectures
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.cpython import STABLE_ABI
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.storage.archives import open_zip
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.sdk.elf import ElfFacts
    from mlir_release.builder.wheels.binaries import BinaryFacts

#: The members that every wheel has.
_METADATA = (".dist-info/METADATA", ".dist-info/WHEEL")

#: Characters of a tag in ``WHEEL`` at most, as in a file name.
_TAG_LIMIT = 250

#: An extension module that is for one interpreter only.
_EXTENSION = re.compile(r"\.(?:cpython|cp)-?(\d+t?)[-.].*\.?(?:so|pyd)$")

#: How run paths begin that lead from the file itself, and not to a folder of the building machine.
_RELATIVE = ("$ORIGIN", "@loader_path", "@executable_path")

#: CPython's DLLs of one version; ``python3.dll`` is every version's.
_OF_ONE_PYTHON = re.compile(r"python3\d+t?\.dll", re.IGNORECASE)


class AuditwheelAnswer(TypedDict):
    """The part of ``auditwheel show --json`` that is read; its ``show-schema.json`` describes all of it."""

    overall_tag: str
    external_libs: Mapping[str, str | None]
    policy_upgrades: Mapping[str, Mapping[str, Sequence[str]]]  #: the obstacles to a policy, by its tag
    pyfpe: bool
    ucs2: bool
    unsupported_isa: bool


@dataclass(frozen=True)
class Problem:
    """Something about a wheel that is wrong. ``id`` is stable; ``message`` is for people."""

    id: str
    message: str


@dataclass(frozen=True, kw_only=True)
class ActualPlatform:
    """The platform tag that the binaries qualify for, and the libraries that they need.

    :param tag: the lowest platform tag that is honest: ``manylinux_2_28_x86_64``, ``linux_x86_64`` where no
        manylinux tag fits, ``any`` without binaries; the claimed one where this machine cannot tell
    :param system: libraries needed and guaranteed by the tag
    :param external: libraries needed and guaranteed by nothing
    """

    tag: str
    system: tuple[str, ...] = ()
    external: tuple[str, ...] = ()


def platforms_of(tags: Sequence[str]) -> tuple[str, ...]:
    """The platform parts of expanded tags, without repetition, in order."""
    return tuple(dict.fromkeys(tag.split("-", 2)[2] for tag in tags))


def abis_of(tags: Sequence[str]) -> set[str]:
    """The ABI parts of expanded tags: ``{"abi3"}``."""
    return {tag.split("-")[1] for tag in tags}


def actual_platform(
    path: Path,
    tags: Sequence[str],
    elf: Mapping[str, ElfFacts],
    binaries: Mapping[str, BinaryFacts],
    *,
    ask_auditwheel: bool = True,
) -> ActualPlatform:
    """Ask auditwheel and the binaries which platform tag is honest.

    auditwheel runs on Linux only, and its command line (``show --json``) is its stable interface.

    :param binaries: the Mach-O and PE files
    :param ask_auditwheel: else only the binaries are asked
    """
    if binaries and not elf:
        qualified = qualified_tag(PlatformTag.parse(platforms_of(tags)[0]), binaries)
        system, outside = needed_libraries(binaries)
        return ActualPlatform(tag=str(qualified), system=system, external=outside)
    inside = {name.rsplit("/", 1)[-1] for name in elf} | {facts.soname for facts in elf.values() if facts.soname}
    needed = {library for facts in elf.values() for library in facts.needed} - inside
    if not elf:
        claimed = platforms_of(tags)
        return ActualPlatform(tag=claimed[0] if claimed else "any")
    answer = _ask_auditwheel(path, elf) if ask_auditwheel and sys.platform == "linux" else None
    required = max((facts.glibc for facts in elf.values() if facts.glibc), default=None)
    if answer is None:
        tag = PlatformTag.parse(platforms_of(tags)[0])
        if required and tag.glibc:
            tag = replace(tag, version=required)
        return ActualPlatform(tag=str(tag), system=tuple(sorted(needed)))
    tag = PlatformTag.parse(str(answer["overall_tag"]))
    libraries: Collection[str] = answer["external_libs"]
    if tag.glibc is None and required is not None:
        tag, libraries = beyond_policies(answer, tag.arch, required, newest_policy())
    if tag.glibc and required and required > tag.glibc:  # what auditwheel overlooks
        tag = replace(tag, version=required)
    external = needed & set(libraries)
    return ActualPlatform(tag=str(tag), system=tuple(sorted(needed - external)), external=tuple(sorted(external)))


def beyond_policies(
    answer: AuditwheelAnswer, arch: str, required: tuple[int, int], newest: tuple[int, int]
) -> tuple[PlatformTag, Collection[str]]:
    """The tag of a wheel that fits none of auditwheel's policies, and the libraries that it must not need from outside.

    PEP 600 defines the tag for every glibc, also for one that is newer than the policies. If only versions of symbols
    keep a wheel from the newest policy, its tag is of a glibc after that: the one that it asks for, or the next,
    where it is another library's version that no surveyed distribution has (libstdc++'s, say).

    :param required: the oldest glibc that the binaries ask for
    :param newest: the glibc of auditwheel's newest policy
    """
    obstacles = answer["policy_upgrades"].get(str(PlatformTag("manylinux", newest, arch)), {})
    libraries = obstacles.get("libs_to_eliminate", ())
    otherwise = answer["pyfpe"] or answer["ucs2"] or answer["unsupported_isa"] or "blacklisted_symbols" in obstacles
    if libraries or otherwise:
        return PlatformTag("linux", None, arch), libraries
    return PlatformTag("manylinux", max(required, (newest[0], newest[1] + 1)), arch), ()


def newest_policy() -> tuple[int, int]:
    """The glibc of the newest manylinux policy that the installed auditwheel has."""
    text = resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text(encoding="utf-8")
    return max(glibc for policy in parse_json(text) if (glibc := PlatformTag.parse(policy["name"]).glibc))


def check_tags(
    wheel_file: str,
    tags: Sequence[str],
    actual: ActualPlatform,
    elf: Mapping[str, ElfFacts],
    members: Sequence[str],
    binaries: Mapping[str, BinaryFacts],
) -> list[Problem]:
    """The problems of a wheel's tags, and of its binaries' demands on the loader.

    :param wheel_file: text of the ``WHEEL`` file
    :param tags: the file name's tags, expanded (``cp311-cp311-linux_x86_64``)
    :param members: names of all members
    """
    from packaging.tags import parse_tag

    problems = []
    lines = [line[4:].strip() for line in wheel_file.splitlines() if line.startswith("Tag:")]
    try:
        # Longer ones stand in no file name, and would expand to more than memory holds.
        stated = sorted(str(tag) for line in lines for tag in parse_tag(line[:_TAG_LIMIT]))
    except ValueError:
        stated = lines
    if stated != sorted(tags):
        message = f"the file name says {', '.join(tags)}; the WHEEL file says {', '.join(stated)}"
        problems.append(Problem("wheel-tags-mismatch", message))
    platforms = platforms_of(tags)
    found = _check_platforms(platforms, actual, elf, {} if elf else binaries)
    if actual.external and not (found and (elf or "any" in platforms)):  # else that is said already
        message = f"needs {', '.join(actual.external)}, which it does not carry"
        found.append(Problem("needs-outside-library", message))
    problems += found
    # Extension modules must be for the interpreter that the tag names, or for the stable ABI where it names that.
    abis = abis_of(tags)
    pythons = set() if abis == {STABLE_ABI} else {tag.split("-")[0] for tag in tags}
    for name in members:
        if (match := _EXTENSION.search(name)) and f"cp{match[1]}" not in pythons | abis:
            message = f"tagged {', '.join(sorted(pythons or abis))}, but {name} is for cp{match[1]}"
            problems.append(Problem("interpreter-tag-untrue", message))
    problems += _check_packed_relocations(tags, elf)
    run_paths = {name: facts.runpath for name, facts in elf.items()}
    run_paths |= {name: facts.runpath for name, facts in binaries.items()}
    for name, paths in run_paths.items():
        if alien := [path for path in paths if not path.startswith(_RELATIVE)]:
            problems.append(Problem("runpath-absolute", f"{name} looks for libraries in {', '.join(alien)}"))
    return problems


def _check_platforms(
    platforms: Sequence[str], actual: ActualPlatform, elf: Collection[str], binaries: Mapping[str, BinaryFacts]
) -> list[Problem]:
    """The platform tags that the binaries don't qualify for."""
    some = next(iter(elf or binaries), None)
    if "any" in platforms and some is not None:
        return [Problem("platform-tag-untrue", f"tagged for any platform, but it contains {some}")]
    problems = []
    qualified = PlatformTag.parse(actual.tag)
    for platform in platforms:
        claimed = PlatformTag.parse(platform)
        pairs = ((claimed.glibc, qualified.glibc), (claimed.macos, qualified.macos))
        if any(one and other and other > one for one, other in pairs):
            problems.append(Problem("platform-tag-untrue", f"tagged {platform}, but it needs {actual.tag}"))
        elif elf and claimed.glibc and qualified.glibc is None:
            why = f"needs {', '.join(actual.external)} from outside" if actual.external else "fits no manylinux policy"
            problems.append(Problem("platform-tag-untrue", f"tagged {platform}, but it {why}"))
    for name, platform in wrong_architectures(platforms, binaries).items():
        message = f"tagged {platform}, but {name} is for {', '.join(binaries[name].architectures)}"
        problems.append(Problem("platform-tag-untrue", message))
    return problems


def _check_packed_relocations(tags: Sequence[str], elf: Mapping[str, ElfFacts]) -> list[Problem]:
    """A glibc that does not know packed relative relocations must refuse the files: by the wheel's tag, or by theirs.

    An installer offers a ``manylinux_2_36`` wheel to no older glibc, so its files need not say it again: the linker
    leaves ``GLIBC_ABI_DT_RELR`` out of a file that takes no versioned symbol from libc. ``linux_x86_64`` promises
    nothing of glibc, and is offered to all; musl has no such versions.
    """
    claimed = [PlatformTag.parse(platform) for platform in platforms_of(tags)]
    if not any(tag.family in {"linux", "any"} or (tag.glibc and tag.glibc < RELR_GLIBC) for tag in claimed):
        return []
    guarded = _refusing_old_glibc(elf)
    why = (
        "has packed relative relocations (DT_RELR), and neither it nor a library that it needs asks for "
        "GLIBC_ABI_DT_RELR: a glibc before 2.36, which the wheel's tag admits, loads it and crashes; "
        "link with -z pack-relative-relocs"
    )
    return [
        Problem("relr-undeclared", f"{name} {why}")
        for name, facts in elf.items()
        if facts.packed_relocations and name not in guarded
    ]


def _refusing_old_glibc(elf: Mapping[str, ElfFacts]) -> set[str]:
    """Members that a glibc before 2.36 refuses cleanly: by their own version needs, or those of a member they need.

    The dynamic linker checks the versions that all loaded files need before it relocates the first of them.
    """
    by_library = {name.rsplit("/", 1)[-1]: name for name in elf}
    by_library |= {facts.soname: name for name, facts in elf.items() if facts.soname}
    found = {name for name, facts in elf.items() if facts.refuses_old_glibc}
    while True:
        more = {
            name
            for name, facts in elf.items()
            if name not in found and any(by_library.get(library) in found for library in facts.needed)
        }
        if not more:
            return found
        found |= more


def _ask_auditwheel(path: Path, elf: Mapping[str, ElfFacts]) -> AuditwheelAnswer | None:
    """auditwheel's answer about a wheel as it is once installed.

    It follows run paths in the archive, where programs and their libraries are in other places
    (``NAME-1.data/scripts``, ``NAME-1.data/data``) than in an environment, and it takes object files for programs.
    """
    if not any(".data/" in name or name.endswith(".o") for name in elf):
        return _auditwheel(path)
    with scratch_folder("installed") as folder, open_zip(path) as archive:
        copy = folder / path.name
        with zipfile.ZipFile(copy, "w") as installed:
            names = [name for name in archive.namelist() if name in elf or name.endswith(_METADATA)]
            kept = {name: installed_path(name) for name in names if not name.endswith(".o")}
            for name, place in kept.items():
                with installed.open(place, "w", force_zip64=True) as member:
                    for chunk in archive.chunks(name):
                        member.write(chunk)
            record = next(name.replace("/WHEEL", "/RECORD") for name in kept if name.endswith("/WHEEL"))
            installed.writestr(record, "".join(f"{place},,\n" for place in (*kept.values(), record)))
        return _auditwheel(copy)


def installed_path(member: str) -> str:
    """Where an installer puts a member, relative to the environment on Linux; ``site-packages`` is its top here."""
    head, _, rest = member.partition("/")
    scheme, _, name = rest.partition("/")
    if not head.endswith(".data") or scheme not in {"scripts", "data", "platlib", "purelib"}:
        return member
    return f"bin/{name}" if scheme == "scripts" else name


def _auditwheel(path: Path) -> AuditwheelAnswer | None:
    """``auditwheel show --json``, or ``None`` where it has no answer (another architecture, not installed)."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(path)]
    try:
        answer: AuditwheelAnswer = parse_json(capture(command, ours=True).stdout)
    except ValueError:
        return None
    return answer if "overall_tag" in answer else None


def check_stable_abi(path: Path, tags: Sequence[str], binaries: Mapping[str, BinaryFacts]) -> list[Problem]:
    """The modules that would not load, or crash, on a CPython that a tag for the stable ABI promises.

    abi3audit looks at the names of functions only. On Windows each comes from a DLL, and ``python313.dll`` is of one
    CPython.

    :param binaries: member name -> facts, of the wheel's Mach-O and PE files
    """
    if STABLE_ABI not in abis_of(tags):
        return []
    messages = [
        f"{name} needs {library}, which only one CPython has"
        for name, facts in binaries.items()
        for library in facts.needed
        if _OF_ONE_PYTHON.fullmatch(library)
    ]
    return [Problem("stable-abi-untrue", message) for message in (*messages, *_ask_abi3audit(path))]


def _ask_abi3audit(path: Path) -> Iterator[str]:
    """abi3audit's findings about a wheel."""
    done = capture([sys.executable, "-m", "abi3audit", "--report", str(path)], ours=True)
    try:
        specs: dict[str, Any] = parse_json(done.stdout)["specs"]
        modules = [module for spec in specs.values() for module in spec[spec["kind"]]]
    except (ValueError, KeyError, TypeError):
        yield f"abi3audit can't judge it: {' '.join(done.stderr.split())[-500:]}"
        return
    if not modules:
        yield "tagged for the stable ABI, but it has no extension module"
    for module in modules:
        name, result = module["name"], module["result"]
        if result["non_abi3_symbols"]:
            yield f"{name} uses what is not in the stable ABI: {', '.join(sorted(result['non_abi3_symbols'])[:5])}"
        if not result["is_abi3_baseline_compatible"]:
            later = ", ".join(sorted(result["future_abi3_objects"])[:5])
            yield f"{name} uses what CPython {result['baseline']} does not have yet: {later}"
