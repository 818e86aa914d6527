"""``_release.json`` in a wheel's package: its own word on which release it belongs to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.regalloc_model import RegallocModel
from mlir_release.ground.documents.decode import PlainName, Sha1, builtins, from_json
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.python.requirements import Relaxed

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Its name, in the package of a project that is at the top of the wheel: ``mlir/_release.json``.
WHEEL_INFO = "_release.json"


def wheel_info_in(members: Iterable[str]) -> str | None:
    """The member of a wheel that says which release it belongs to; None if it has none, or several.

    It is in the package that the wheel installs, whatever that is called: readers need not know the project.
    """
    found = [name for name in members if name.count("/") == 1 and name.endswith(f"/{WHEEL_INFO}")]
    return found[0] if len(found) == 1 else None


class WheelInfo(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The content of ``_release.json``."""

    tag: str  #: the release's
    revision: Sha1  #: llvm-project commit
    llvm_version: str = ""
    distribution: str = ""  #: ``mlir``, ``mlir-core``, ``mlir-full``, ``mlir-asserts``
    project: PlainName = DEFAULT_PROJECT
    profile: PlainName
    target: str  #: row of the build matrix, ``mlir-linux-x86_64-cp312``
    serves: tuple[str, ...] = ()  #: the CPythons that a wheel for the stable ABI is for: ``cp312``, ``cp313``, …
    toolkit_version: str = ""
    relaxed: tuple[Relaxed, ...] = ()  #: requirements that replace upstream's, in the wheel's metadata
    regalloc_model: RegallocModel | None = None  #: the learned eviction policy that it compiles with
    assertions: bool = False  #: whether LLVM's assertions are on
    sdk: str = ""  #: digest of the SDK that it was built from, as ``sdk.json`` has it
    sdk_wheel: str = ""  #: ``mlir-sdk==20261123.1``: that SDK as a wheel, where the same release makes it; empty: none
    image: str = ""  #: the container image that it was built in, by its digest; empty: none

    def to_text(self) -> str:
        """The file's content."""
        data = builtins(
            self, optional=("regalloc_model", "relaxed", "serves", "assertions", "sdk", "sdk_wheel", "image")
        )
        if self.project == DEFAULT_PROJECT:  # as those were written that knew no other
            del data["project"]
        return json.dumps(data, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, content: str | bytes) -> WheelInfo:
        """Read :meth:`to_text`'s text. :raises MalformedError:"""
        return from_json(content, cls)
