"""A set file: the distributions that belong together, where their wheels are, and how their LLVM is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from mlir_release.builder.sdk.provision import LLVM_PROJECT
from mlir_release.ground.documents.decode import MalformedError, ProjectName, alternatives, doc, from_toml
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.storage.files import read_document

#: The sets that come with the toolkit.
SHIPPED = Path(__file__).parent

_FIELD = re.compile(r"\{(\w+)\}")


class SetMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """``[[member]]``: a distribution. Without ``pin-of`` and ``llvm`` it is of this toolkit's releases."""

    distribution: ProjectName
    forge: Annotated[str, doc("Of this toolkit's releases: github:OWNER/NAME, local:PATH; default: --forge")] = ""
    index: Annotated[str, doc("The address of a simple index")] = ""
    find_links: Annotated[str, doc("The address of a page with links to wheels, or a folder beside the set file")] = ""
    pin_of: Annotated[str, doc("The project whose pin is its LLVM, as in the policy pin-of: OWNER/NAME[#PATH]")] = ""
    version: Annotated[str, doc("A regular expression of versions; its named groups are fields of refs")] = ".+"
    refs: Annotated[
        tuple[str, ...],
        doc("The project's commit for a version, with {version} and named groups; all must pin the same LLVM"),
    ] = ()
    llvm: Annotated[str, doc("Instead: a regular expression for the wheel's METADATA; its group is LLVM's commit")] = ""

    def __post_init__(self) -> None:
        for name in ("version", "llvm"):
            try:
                groups = re.compile(getattr(self, name)).groups
            except re.error as error:
                raise MalformedError(name, f"is not a regular expression: {error}") from None
            if name == "llvm" and self.llvm and groups != 1:
                raise MalformedError("llvm", f"has {groups} groups, and needs one")
        if self.released and (self.index or self.find_links or self.refs):
            raise MalformedError("", "needs pin-of or llvm: they say which LLVM a wheel is built from")
        if not self.released and (bool(self.index) == bool(self.find_links) or self.forge):
            raise MalformedError("", "needs exactly one of index and find-links, and no forge")
        if bool(self.pin_of) != bool(self.refs) or (self.pin_of and self.llvm):
            raise MalformedError("", "needs pin-of with refs, or llvm")
        known = {"version", *re.compile(self.version).groupindex}
        for field in _FIELD.findall("".join(self.refs)):
            if field not in known:
                raise MalformedError("refs", f"has {{{field}}}; {alternatives(field, sorted(known))}")

    @property
    def released(self) -> bool:
        """Whether it is of this toolkit's releases."""
        return not (self.pin_of or self.llvm)

    def refs_of(self, version: str) -> tuple[str, ...] | None:
        """The project's refs for a version; None if the file says nothing of such versions."""
        match = re.fullmatch(self.version, version)
        if match is None:
            return None
        fields = {**match.groupdict(""), "version": version}
        return tuple(_FIELD.sub(lambda found: fields[found[1]], ref) for ref in self.refs)


class SetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    member: Annotated[tuple[SetMember, ...], Meta(min_length=2, title="a list of two members at least")]
    upstream: Annotated[str, doc("The Git URL of llvm-project")] = LLVM_PROJECT

    def __post_init__(self) -> None:
        names = [canonical(each.distribution) for each in self.member]
        for name in names:
            if names.count(name) > 1:
                raise MalformedError("member", f"has the distribution {name} twice")


def load_set(name: str) -> SetFile:
    """Read a set that comes with the toolkit, by its name, or a person's, by its path.

    A folder of wheels is relative to the file.

    :raises UsageError: ``input-missing``, ``config-invalid``
    """
    path = Path(name)
    if not (path.suffix == ".toml" or path.parent != Path()):
        path = SHIPPED / f"{name}.toml"
    try:
        content = read_document(path)
    except FileNotFoundError:
        shipped = sorted(each.stem for each in SHIPPED.glob("*.toml"))
        raise UsageError(
            "input-missing",
            f"there is no set {name}",
            where=str(path),
            remedy=f"give the path of a set file, or the name of one that comes with the toolkit: {', '.join(shipped)}",
        ) from None
    try:
        found = from_toml(content, SetFile)
    except MalformedError as error:
        raise UsageError(
            "config-invalid", f"the set {name}: {error}", where=str(path), remedy="correct the file (docs/sets.md)"
        ) from None
    members = list(found.member)
    for at, each in enumerate(members):
        if each.find_links and not urlsplit(each.find_links).scheme:
            address = (path.parent / each.find_links).absolute().as_uri()
            members[at] = msgspec.structs.replace(each, find_links=address)
    return msgspec.structs.replace(found, member=tuple(members))
