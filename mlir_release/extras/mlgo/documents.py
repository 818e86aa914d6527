"""The documents of MLGO: the corpus, its trace, the state of a training, the policy.

Each is one JSON file of a fixed name, which the next command reads. Numbers are read back exactly. Nothing in a
document depends on the time or speed of the run that made it, so equal inputs give equal bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from msgspec import Meta, Struct

from mlir_release.ground.documents.decode import Count, MalformedError, Sha256, builtins, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from pathlib import Path

#: The form of a policy: it scores by a weighted sum of the features, or by one hidden layer.
Kind = Literal["linear", "mlp"]

#: The decision of a policy. Source: :mod:`mlir_release.extras.mlgo.problems`.
ProblemName = Literal["regalloc", "inlining"]

#: The start of a training: the order of :func:`.train.plain_order`, or an imitation of the default.
Start = Literal["order", "heuristic"]

_Share = Annotated[float, Meta(gt=0, lt=1, title="a share between 0 and 1")]


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON file of MLGO. ``FILE`` is its name."""

    FILE: ClassVar[str]

    problem: ProblemName = "regalloc"  #: not written then, so that digests stay those of older files

    def to_text(self) -> str:
        """The file's content."""
        return json.dumps(builtins(self), indent=1) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the document."""
        return sha256_of(self.to_text())

    @classmethod
    def from_text(cls, content: str | bytes, *, where: str) -> Self:
        """Read :meth:`to_text`'s text.

        :param where: the source, in errors
        :raises UsageError: ``input-invalid``
        """
        try:
            return from_json(content, cls)
        except MalformedError as error:
            raise UsageError(
                "input-invalid",
                f"{cls.FILE} can't be read: {error.path or 'it'} {error.problem}",
                where=where,
                remedy=error.hint or "create it again with `mlir-release mlgo`",
            ) from None

    @classmethod
    def load(cls, path: Path, *, missing: str, remedy: str) -> Self:
        """Read a file.

        :param missing: the error's words if the file is missing, with the remedy
        :raises UsageError: ``input-missing``, ``input-invalid``
        """
        try:
            content = read_document(path)
        except OSError as error:
            raise UsageError(
                "input-missing", missing, where=str(path), why=str(error.strerror), remedy=remedy
            ) from None
        return cls.from_text(content, where=str(path))


class Module(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One translation unit of the corpus: bitcode, as register allocation meets it, or before any inlining."""

    name: str  #: the object's path in the build tree; unique
    bitcode: str  #: path below the corpus' folder, with ``/``
    sha256: Sha256  #: of the bitcode
    flags: tuple[str, ...]  #: for llc or clang, as the module was compiled
    held_out: bool  #: never seen by the training

    def __post_init__(self) -> None:
        for field, path in (("name", self.name), ("bitcode", self.bitcode)):
            if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")) or not path.isprintable():
                raise MalformedError(field, f"{path!r} is no path below a folder", "create the corpus again")


class Corpus(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The modules: some to train policies on, the others to evaluate them."""

    FILE: ClassVar[str] = "corpus.json"

    llvm: str  #: version of the compiler that wrote the bitcode: ``22.1.8``
    share: _Share  #: of modules that are held out
    modules: tuple[Module, ...]  #: by name

    @property
    def training(self) -> tuple[Module, ...]:
        """Those to learn from."""
        return tuple(module for module in self.modules if not module.held_out)

    @property
    def held_out(self) -> tuple[Module, ...]:
        """Those to evaluate on."""
        return tuple(module for module in self.modules if module.held_out)


def _check_lengths(count: int, **vectors: tuple[float, ...]) -> None:
    """:raises MalformedError: if one of the vectors, which belong to ``count`` things, has another length"""
    for name, vector in vectors.items():
        if len(vector) != count:
            raise MalformedError(name, f"has {len(vector)} numbers, not {count}")


class Default(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module, compiled by the compiler's own heuristic."""

    name: str
    cost: Annotated[float, Meta(ge=0)]  #: as the problem counts it
    text: Count  #: bytes of .text


class Trace(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """A record of compiling the training modules: the scales of the features, and the default's results."""

    FILE: ClassVar[str] = "trace.json"

    llvm: str
    corpus: Sha256  #: :attr:`Corpus.digest`
    features: tuple[str, ...]  #: inputs of a policy, in order
    mean: tuple[float, ...]  #: of each feature, over all choices
    deviation: tuple[float, ...]  #: standard deviation; 1 for a feature that never varies
    decisions: Count  #: questions of the compiler
    identical: Count  #: of these modules, those whose object code equals the default's when its choices are given
    defaults: tuple[Default, ...]  #: of the training modules, by name
    observed: bool = False  #: whether a compiler in development mode told the default's choices, else problem.default
    sampled: Count = 0  #: modules whose decisions were taken; 0: all

    def __post_init__(self) -> None:
        _check_lengths(len(self.features), mean=self.mean, deviation=self.deviation)

    @property
    def traced(self) -> int:
        """Modules whose decisions were taken."""
        return self.sampled or len(self.defaults)


class LearnedPolicy(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """A policy: scores each choice of a decision; the one of the highest score is taken."""

    FILE: ClassVar[str] = "policy.json"

    llvm: str
    corpus: Sha256  #: that it was trained on
    kind: Kind
    hidden: Count  #: units of the hidden layer; 0 for a linear one
    features: tuple[str, ...]
    mean: tuple[float, ...]  #: subtracted from each feature …
    deviation: tuple[float, ...]  #: … which is then divided by this
    weights: tuple[float, ...]  #: in the order of :mod:`mlir_release.extras.mlgo.policies`


class Trained(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The training corpus of a saved model of TensorFlow; it is a file of the model's folder."""

    FILE: ClassVar[str] = "trained.json"

    llvm: str
    corpus: Sha256  #: :attr:`Corpus.digest`


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a training; to resume it, give the same."""

    seed: Count
    kind: Kind
    hidden: Count
    pairs: Annotated[int, Meta(ge=1)]  #: antithetic pairs of policies tried in a generation
    sigma: Annotated[float, Meta(gt=0)]  #: standard deviation of the changes that are tried
    rate: Annotated[float, Meta(gt=0)]  #: step of the weights, of Adam
    start: Start = "order"
    batch: Count = 0  #: modules that a generation's pairs are tried on, drawn anew for each; 0: all


class Training(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The whole state of a training after some generations: the next ones depend on nothing else."""

    FILE: ClassVar[str] = "training.json"

    llvm: str
    corpus: Sha256
    features: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    settings: Settings
    weights: tuple[float, ...]  #: of the next generation's centre
    first: tuple[float, ...]  #: Adam's running mean of gradients
    second: tuple[float, ...]  #: Adam's running mean of their squares
    best: tuple[float, ...]  #: weights of the best centre so far
    rewards: tuple[float, ...]  #: of each generation's centre, the first being the warm start

    def __post_init__(self) -> None:
        _check_lengths(len(self.features), mean=self.mean, deviation=self.deviation)
        _check_lengths(len(self.weights), first=self.first, second=self.second, best=self.best)

    @property
    def generation(self) -> int:
        """Generations that are done."""
        return len(self.rewards)

    def policy(self, weights: tuple[float, ...] | None = None) -> LearnedPolicy:
        """The policy of some weights; default: the best so far."""
        return LearnedPolicy(
            problem=self.problem,
            llvm=self.llvm,
            corpus=self.corpus,
            kind=self.settings.kind,
            hidden=self.settings.hidden,
            features=self.features,
            mean=self.mean,
            deviation=self.deviation,
            weights=self.best if weights is None else weights,
        )
