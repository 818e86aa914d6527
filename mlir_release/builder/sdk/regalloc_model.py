"""A learned eviction policy, to be compiled into an LLVM: its folder, and the advisor of an LLVM's sources.

The advisor is one source of LLVM's, which includes the model's header where it has one. Compiled again with it, and
linked ahead of LLVM's archives, it takes the place of theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mlir_release.builder.model.regalloc_model import (
    ADVISOR,
    DESCRIPTION,
    EVALUATION,
    SOURCES,
    EvaluationVerdict,
    ModelDescription,
)
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.files import copy_regular, read_document, read_text

#: The CMake project that compiles a learned eviction policy for LLVM's own build.
CMAKE_PROJECT = Path(__file__).with_name("regalloc")

#: The advisor, with the headers that it includes and that no LLVM installs; a version may lack some.
ADVISOR_SOURCES = (
    ADVISOR,
    *(f"llvm/lib/CodeGen/{name}.h" for name in (
        "AllocationOrder", "InterferenceCache", "MLRegAllocEvictAdvisor", "RegAllocBase", "RegAllocGreedy", "SplitKit",
    )),
)  # fmt: skip

_FEATURE_LIST = re.compile(r"#define RA_EVICT_FEATURES_LIST\(M\)((?:.*\\\n)*.*\n)")
_DESCRIPTION = re.compile(r'"[^"\n]*"')
_FEATURE = re.compile(r"\bM\(\w+, (\w+),")


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model on disk, whose files are those that its description names."""

    folder: Path
    about: ModelDescription

    @classmethod
    def load(cls, folder: Path) -> ModelFolder:
        """Read the folder.

        :raises UsageError: ``input-missing``, ``input-invalid``
        :raises VerificationError: ``file-damaged``
        """
        missing = [name for name in (DESCRIPTION, *SOURCES) if not (folder / name).is_file()]
        if missing:
            raise UsageError(
                "input-missing",
                f"there is no {missing[0]} in the folder that regalloc-model names",
                where=str(folder),
                remedy="write the folder with `mlir-release mlgo embed`, commit it, or correct the key",
            )
        try:
            about = ModelDescription.from_text(read_document(folder / DESCRIPTION))
        except MalformedError as error:
            raise UsageError(
                "input-invalid",
                f"{DESCRIPTION} can't be read: {error.path or 'it'} {error.problem}",
                where=str(folder),
                remedy=error.hint or "write the folder again with `mlir-release mlgo embed`",
            ) from None
        for name in SOURCES:
            if sha256_of(folder / name) != about.files.get(name):
                raise VerificationError(
                    "file-damaged",
                    f"{name} is not the file that {DESCRIPTION} describes",
                    where=str(folder / name),
                    why=f"its SHA-256 is {sha256_of(folder / name)}, not {about.files.get(name)}",
                    remedy="restore it, or write the folder again with `mlir-release mlgo embed`",
                )
        return cls(folder=folder, about=about)

    def check(self, source: Path) -> None:
        """Make sure that an LLVM's advisor gives the features that the model reads.

        :param source: llvm-project, or the part of it that an SDK carries
        :raises VerificationError: ``model-unsuitable``
        """
        file = source / ADVISOR
        features = advisor_features(read_text(file, errors="surrogateescape")) if file.is_file() else ()
        if not features:
            raise VerificationError(
                "model-unsuitable",
                "these sources have no advisor that a model could be compiled with",
                where=str(file),
                why="it names no features (RA_EVICT_FEATURES_LIST)" if file.is_file() else "there is no such file",
                remedy="make the SDK again with this version of the toolkit; where the file is there, LLVM has changed "
                "it, and the key regalloc-model must go",
            )
        if features != self.about.features:
            odd = sorted(set(features) ^ set(self.about.features))
            raise VerificationError(
                "model-unsuitable",
                f"the model is for LLVM {self.about.llvm}, and this LLVM's advisor gives other features",
                where=str(self.folder),
                why=f"only one of both has {', '.join(odd)}" if odd else "their order differs",
                remedy="train a policy with this LLVM, or remove the key regalloc-model",
            )

    def check_better(self) -> None:
        """Make sure that the policy won against LLVM's heuristic: releases have no other.

        :raises VerificationError: ``model-unsuitable``
        """
        file = self.folder / EVALUATION
        try:
            found = from_json(read_document(file), EvaluationVerdict)
            why = (
                found.verdict if found.policy == self.about.policy else f"it is of another policy, {found.policy[:12]}"
            )
            passed = found.better and found.policy == self.about.policy
        except (OSError, MalformedError) as error:
            passed, why = False, f"it can't be read: {error}"
        if not passed:
            raise VerificationError(
                "model-unsuitable",
                "no evaluation shows that the model is better than LLVM's heuristic, so no release may have it",
                where=str(file),
                why=why,
                remedy="put there what `mlir-release mlgo evaluate --programs … --json` prints of a policy that is "
                "better, or remove the key regalloc-model",
            )

    def copy_to(self, folder: Path) -> None:
        """Copy what is compiled."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in SOURCES:
            copy_regular(self.folder / name, folder / name)


def advisor_features(text: str) -> tuple[str, ...]:
    """The features that the advisor's source names, in its order; none if it has no such list. Pure."""
    found = _FEATURE_LIST.search(text)
    return tuple(_FEATURE.findall(_DESCRIPTION.sub("", found[1]))) if found else ()
