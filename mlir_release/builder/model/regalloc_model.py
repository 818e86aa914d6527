"""A learned eviction policy as C++: its description, and what the artifacts that carry one say of it.

``mlir-release mlgo embed`` writes the folder, and ``regalloc-model`` in ``targets.toml`` names it.
"""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mlir_release.ground.documents.decode import Sha256, doc, from_json, text
from mlir_release.ground.documents.digests import sha256_of

#: The folder's description.
DESCRIPTION = "model.json"

#: The class of the model, and its files' name; of ``LLVM_OVERRIDE_MODEL_HEADER_…`` (in capitals), too.
MODEL = "RegAllocEvictModel"

#: What ``mlgo evaluate --json`` printed of the policy; a release needs it.
EVALUATION = "evaluation.json"

#: The source of LLVM's that includes the model, in llvm-project's layout.
ADVISOR = "llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp"

#: What is compiled.
SOURCES = (f"{MODEL}.h", f"{MODEL}.cpp")

#: A folder of the release repository, such as ``models/evict``.
ModelPath = Annotated[
    str, text(r"(?!(?:.*/)?\.\.?(?:/|$))[\w.-]+(?:/[\w.-]+)*", "a folder below the repository's root")
]


class RegallocModel(Struct, frozen=True, kw_only=True):
    """Which policy is inside, and what it was trained on."""

    policy: Annotated[Sha256, doc("Of `policy.json`")]
    corpus: Annotated[Sha256, doc("Of `corpus.json`")]

    def __str__(self) -> str:
        return f"policy {self.policy[:12]}, trained on corpus {self.corpus[:12]}"


class EvaluationVerdict(Struct, frozen=True, kw_only=True):
    """What counts of an evaluation."""

    policy: Sha256
    better: bool
    verdict: str  #: in words


class ModelDescription(RegallocModel, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="schema", tag=1):
    """The content of ``model.json``."""

    llvm: str  #: that it was trained with: ``22.1.8``
    features: Annotated[tuple[str, ...], Meta(min_length=1)]  #: that the compiler gives, in its order
    files: dict[str, Sha256]  #: of :data:`SOURCES`

    @property
    def model(self) -> RegallocModel:
        """What an artifact says of it."""
        return RegallocModel(policy=self.policy, corpus=self.corpus)

    @property
    def key(self) -> str:
        """Names what is compiled, for builds and caches."""
        return sha256_of(" ".join(self.files[name] for name in SOURCES))[:12]

    def to_text(self) -> str:
        """The file's content."""
        return json.dumps(msgspec.to_builtins(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, content: str | bytes) -> ModelDescription:
        """Read :meth:`to_text`'s text. :raises MalformedError:"""
        return from_json(content, cls)
