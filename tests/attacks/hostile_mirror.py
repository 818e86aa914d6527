"""A mirror of a signed release, and what someone who can write its folder does to it."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import ExitCode, ReleaseError
from tests.release.integration.signed_stage import TAG, TARGETS
from tests.wheel_factory import PYTHON, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.release.integration.signed_stage import SignedStage

#: The matrix of a mirror, which says what its owner likes.
FILES = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode()}


@dataclass(frozen=True)
class Answer:
    """What came of a command. ``id``: of the error that it ended with; empty if there was none."""

    code: int
    id: str
    output: str
    error: ReleaseError | None = None


def run(*arguments: str | Path) -> Answer:
    """Run a command of the command line, as its users do."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], standalone_mode=False)
    error = done.exception
    if isinstance(error, ReleaseError):
        return Answer(int(error.exit_code), error.id, done.output, error)
    if error is not None and not hasattr(error, "exit_code"):
        raise error
    code = getattr(error, "exit_code", done.return_value or ExitCode.OK)
    return Answer(int(code), "", f"{done.output}{error or ''}")


@dataclass
class Mirror:
    """A mirror in a folder, and the root of trust of those who signed what it copies."""

    root: Path
    signer: str  #: the repository that signed
    trusted_root: Path
    stage: SignedStage

    @property
    def address(self) -> str:
        return f"local:{self.root}"

    @property
    def folder(self) -> Path:
        return self.root / "releases" / TAG

    @property
    def wheel(self) -> Path:
        (found,) = self.folder.glob("*.whl")
        return found

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The ways to ask for signatures."""
        signer, root = ("--signed-by", self.signer), ("--trusted-root", str(self.trusted_root))
        return {"--signed-by": signer, "--trusted-root": root, "both": (*signer, *root)}

    def record(self, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
        """Change the forge's record of the release."""
        path = self.folder / ".forge.json"
        data = json.loads(path.read_bytes())
        change(data)
        path.write_text(json.dumps(data))

    def put(self, name: str, content: bytes) -> None:
        """Add or replace a file, and record it."""
        (self.folder / name).write_bytes(content)
        row = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.record(lambda data: data["assets"].update({name: row}))

    def edit_manifest(self, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
        data = json.loads((self.folder / "release.json").read_bytes())
        change(data)
        self.put("release.json", json.dumps(data).encode())

    def swap_wheel(self) -> bytes:
        """Put another wheel in place of the signed one, with its digest in the manifest; returns its content."""
        other = make_wheel(self.root / "other", tag=TAG, version="20261120.1", python=PYTHON, content="print('evil')")
        content = other.read_bytes()
        assert other.name == self.wheel.name
        assert content != self.wheel.read_bytes()
        self.put(other.name, content)
        digest = hashlib.sha256(content).hexdigest()
        self.edit_manifest(lambda data: data["wheels"][0].update(sha256=digest, size=len(content)))
        shutil.rmtree(self.root / "other")
        return content

    def unsign(self) -> None:
        """Say that nothing is signed."""
        self.edit_manifest(lambda data: data.update(provenance="none", repository=""))
        for bundle in self.folder.glob("*.sigstore.json"):
            bundle.unlink()
            self.record(lambda data, name=bundle.name: data["assets"].pop(name))  # type: ignore[misc]
