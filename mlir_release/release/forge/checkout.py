"""The release repository's own files, in a checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import alternatives, parse_toml
from mlir_release.ground.errors import ConflictError, UsageError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.worktrees import current_branch
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin, parse_pin
from mlir_release.ground.programs.surroundings import also_pass
from mlir_release.ground.storage.files import read_document, read_if_there, read_text, write_atomically
from mlir_release.ground.storage.shipped import SHIPPED
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE, format_codeowners
from mlir_release.release.forge.files import DEFAULT_BRANCH
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import LINES_FOLDER, line_file, line_of_file

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The workflow that signs. GitHub allows no expression in ``uses``, so its callers name the repository.
SIGNER = ".github/workflows/attest.yml"

_CALL = re.compile(rf"(?<=uses: )[^/\s]+/[^/\s]+/{re.escape(SIGNER)}@[^\s]+")


def matrix_of_checkout(repository: Path, line: str | None = None) -> Matrix:
    """The build matrix of a checkout: of snapshots, or of a release line, which may have a file of its own.

    :raises UsageError: if ``targets.toml`` is missing, or a file has a mistake
    """
    matrix = Matrix.parse(_text_of(repository / TARGETS_FILE), where=str(repository / TARGETS_FILE))
    path = repository / line_file(line) if line is not None else None
    if line is None or path is None or not path.is_file():
        return matrix
    return matrix.of_line(line, _text_of(path), where=str(path))


def _text_of(path: Path) -> str:
    try:
        return read_document(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "input-missing",
            f"there is no readable {path.name} in this folder",
            where=str(path),
            why=str(error),
            remedy="run this in a checkout of the release repository, or name one with --repository",
        ) from None


def checkout_or_shipped(repository: Path) -> Path:
    """``repository``; where that is this folder and no checkout, the folder with the toolkit's own pin and targets."""
    if repository != Path() or (repository / TARGETS_FILE).exists():
        return repository
    console.say(f"there is no {TARGETS_FILE} in this folder: taking the toolkit's own, in {SHIPPED}")
    return SHIPPED


def pass_named_variables(repository: Path = Path()) -> None:
    """Let foreign programs see the variables that ``environment`` of ``[release]`` names, if it is such a checkout.

    :raises UsageError: if its ``targets.toml`` has a mistake
    """
    if (repository / TARGETS_FILE).is_file():
        also_pass(matrix_of_checkout(repository).release.environment)


def files_of_checkout(repository: Path) -> dict[str, bytes]:
    """The pin and the matrices of a checkout, by path, for a new forge. :raises UsageError: if one has a mistake"""
    matrix_of_checkout(repository)
    lines = [f"{LINES_FOLDER}/{path.name}" for path in sorted((repository / LINES_FOLDER).glob("*.toml"))]
    for path in lines:
        matrix_of_checkout(repository, line_of_file(path))
    found = {path: read_document(repository / path) for path in (TARGETS_FILE, *lines)}
    return {PIN_FILE: format_pin(read_pin(repository)), **found}


def signed_by(repository: str, workflow: str) -> str:
    """A workflow that has ``attest.yml`` of ``repository`` (``OWNER/NAME``) sign, at the branch of signatures."""
    return _CALL.sub(f"{repository}/{SIGNER}@{DEFAULT_BRANCH}", workflow)


def starter(text: str, platforms: Sequence[str]) -> str:
    """A build matrix to begin with: the first LLVM configuration on these platforms. Each other row is a comment.

    It is made of the toolkit's own matrix, so that every fact stands once, or of such a one. Canaries are left out.

    :param text: a valid ``targets.toml``
    :raises UsageError: ``option-invalid``
    """
    tables = parse_toml(text)
    first = next(iter(tables["llvm"]))
    if re.search(r"(?m)^\[\[target\]\]", text):
        lines = []
        for row in tables["target"]:
            table = tables["llvm"][row["llvm"]]
            note = f"  # each {table.get('day', 'monday')}" if table.get("cadence") == "weekly" else ""
            for runtime in row.pop("runtimes", None) or [row.pop("runtime")]:
                words = {"llvm": row["llvm"], "runtime": runtime} | row
                pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in words.items())
                lines.append(f"  # {{{pairs}}},{note}")
        kept = re.split(r"(?m)^\[\[(?:target|canary)\]\]", text)[0].splitlines()
        while not kept[-1] or kept[-1].startswith("#"):  # of the rows
            kept.pop()
        begin = next(number for number, line in enumerate(kept) if line.startswith("["))
        rows = ["# Each line is built on one platform, once its # is removed.", "target = [", *lines, "]", ""]
        kept[begin:begin] = rows  # ahead of the first table, because they belong to none
        text = "\n".join(kept) + "\n"
    for platform in platforms:
        row = rf'(?m)^  (?:# )?(\{{llvm = "{first}", runtime = "{re.escape(platform)}",(?!.* tags = ).*)$'
        text, found = re.subn(row, r"  \1", text)
        if not found:
            known = re.findall(rf'(?m)^  (?:# )?\{{llvm = "{first}", runtime = "([^"]+)",(?!.* tags = )', text)
            what = f"{TARGETS_FILE} has no row of {first} for the platform {platform!r}"
            raise UsageError("option-invalid", what, remedy=alternatives(platform, known))
    return text


def adopt(directory: Path, repository: str, owners: Sequence[str], *, platforms: Sequence[str] = ()) -> list[str]:
    """Write into a checkout whose release repository it is, and who reviews it. Repeating this changes nothing.

    :param repository: ``OWNER/NAME`` on GitHub, checked by the caller
    :param owners: as of :func:`format_codeowners`
    :param platforms: begin with these, by a :func:`starter`; none: leave the matrix as it is
    :returns: the files that are different now
    :raises UsageError: ``option-invalid``, and those of :func:`matrix_of_checkout`
    """
    matrix_of_checkout(directory)
    texts = {path: read_text(path) for path in sorted((directory / SIGNER).parent.glob("*.yml"))}
    wanted = {path: signed_by(repository, text) for path, text in texts.items()}
    wanted[directory / CODEOWNERS_FILE] = format_codeowners(owners)
    if platforms:
        wanted[directory / TARGETS_FILE] = text = starter(_text_of(directory / TARGETS_FILE), platforms)
        Matrix.parse(text, where=str(directory / TARGETS_FILE))  # before anything is written
    changed = {path: text for path, text in wanted.items() if read_if_there(path) != text.encode()}
    for path, text in changed.items():
        write_atomically(path, text)
    return [path.relative_to(directory).as_posix() for path in changed]


def read_pin(directory: Path) -> str:
    """The pin of a checkout. :raises UsageError: if it is missing or malformed."""
    path = directory / PIN_FILE
    return parse_pin(read_if_there(path), where=str(path))


def write_pin(directory: Path, sha: str) -> None:
    """Set the pin of a checkout, atomically.

    :raises ConflictError: if the checkout's HEAD is detached or the pin file has uncommitted changes: someone's work
        would be lost silently later.
    """
    git = Git(directory)
    path = directory / PIN_FILE
    if git.is_repository():
        if current_branch(git) is None and git.resolve("HEAD"):
            raise ConflictError(
                "checkout-dirty",
                "the release repository's HEAD is detached: a pin committed there would belong to no branch",
                where=str(directory),
                remedy="git switch to the pin branch first",
            )
        # Not `git status`: it starts the programs that a checkout's configuration names as filters.
        kept, found = git.read("HEAD", PIN_FILE), read_if_there(path)
        if kept is not None and found is not None and kept.split() != found.split():
            raise ConflictError(
                "checkout-dirty",
                f"{PIN_FILE} has changes that are not committed",
                where=str(path),
                remedy="commit or discard them first (git checkout -- llvm-project.version)",
            )
    write_atomically(path, format_pin(sha))
