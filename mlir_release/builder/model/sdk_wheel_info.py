"""``_mlir_sdk.json``: which SDK a package is, or was built from.

The wheels of an SDK hold it, and so does every Python package that a downstream builds from one: it is among upstream's
Python sources in the SDK, which such a package is made of.
"""

from __future__ import annotations

import json

from msgspec import Struct

from mlir_release.ground.documents.decode import Sha1, builtins, from_json

#: The file's name, at the top of a package.
SDK_WHEEL_INFO = "_mlir_sdk.json"

#: The distributions: what builds need, the programs, and those programs that tests of others run, too.
SDK, SDK_TOOLS, TEST_TOOLS = "mlir-sdk", "mlir-sdk-tools", "mlir-test-tools"

#: All of them.
SDK_DISTRIBUTIONS = (SDK, SDK_TOOLS, TEST_TOOLS)


def package_of(distribution: str) -> str:
    """The Python package of one of them: ``mlir_sdk_tools``."""
    return distribution.replace("-", "_")


class SdkWheelInfo(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The content of ``_mlir_sdk.json``."""

    version: str  #: of the distributions
    revision: Sha1  #: llvm-project commit
    llvm_version: str
    platform: str  #: ``linux-x86_64``
    digest: str  #: the SDK's, as ``sdk.json`` has it
    configuration: str  #: build type and assertions of the libraries
    code_generators: tuple[str, ...]  #: those that the wheel has
    c_runtime: str  #: what the SDK's programs need of it, ``glibc 2.28, GLIBCXX_3.4.24``; empty where it can't be told
    binding_requirements: tuple[str, ...]  #: what building bindings needs, as upstream's requirements.txt has it
    minimum_python: str  #: oldest CPython that the bindings support
    toolkit_version: str

    @property
    def title(self) -> str:
        """For people, in one line."""
        return f"{SDK} {self.version} (LLVM {self.llvm_version}, {self.revision[:12]}, {self.platform})"

    def to_text(self) -> str:
        """The file's content."""
        return json.dumps(builtins(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, content: str | bytes) -> SdkWheelInfo:
        """Read :meth:`to_text`'s text. :raises MalformedError:"""
        return from_json(content, cls)
