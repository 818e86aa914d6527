#!/usr/bin/env python3
"""The steps of ``release-toolkit.yml``, which releases the toolkit itself (docs/releasing-the-toolkit.md).

``check TAG BRANCH`` before anything is built; ``compare INDEX`` before and after an upload; ``publish TAG FOLDER`` for
the release on GitHub. The variable ``DIGESTS`` has the files that were built, as ``sha256sum`` prints them. Each step
can be repeated: what is there already with the same digest stays, and another digest is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlir_release import __version__  # noqa: E402
from mlir_release.ground.console import console  # noqa: E402
from mlir_release.ground.documents.digests import sha256_of  # noqa: E402
from mlir_release.ground.errors import ReleaseError, UsageError, VerificationError  # noqa: E402
from mlir_release.ground.git.repository import Git  # noqa: E402
from mlir_release.ground.git.trees import is_ancestor  # noqa: E402
from mlir_release.release.forge.open import open_forge  # noqa: E402
from mlir_release.release.pypi.project import read_project, simple_url  # noqa: E402
from mlir_release.release.pypi.publish import PAUSES  # noqa: E402
from setup import absolute_links  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.release.forge.base import Forge, Release
    from mlir_release.release.pypi.project import IndexProject

PROJECT = "mlir-release"

#: The upload addresses, by the names of the environments.
INDEXES = {"testpypi": "https://test.pypi.org/legacy/", "pypi": "https://upload.pypi.org/legacy/"}


def check_tag(git: Git, tag: str, branch: str, *, version: str = __version__) -> str:
    """The commit of a tag that may be released: it is checked out, of this version, and the branch leads to it.

    :param branch: the default branch, which a clone has of its remote ``origin``
    :raises UsageError: ``release-unsuitable``
    """
    commit, head = git.resolve(f"refs/tags/{tag}^{{commit}}"), git.resolve("HEAD")
    protected = git.resolve(f"refs/remotes/origin/{branch}")
    why = ""
    if tag != f"v{version}":
        why = f"mlir_release.__version__ is {version}, so its tag is v{version}"
    elif str(Version(version)) != version or Version(version).is_devrelease or Version(version).local:
        why = f"{version} is no version that an index takes as it is written (PEP 440)"
    elif commit is None or commit != head:
        why = f"the tag is of {commit or 'no commit'}, and {head} is checked out"
    elif protected is None or not is_ancestor(git, commit, protected):
        why = f"{branch} does not lead to {commit}"
    if commit is None or why:
        raise UsageError(
            "release-unsuitable",
            f"{tag} is no release of the toolkit",
            where=str(git.directory),
            why=why,
            remedy=f"set __version__ and the heading of CHANGELOG.md on {branch}, then tag that commit",
        )
    return commit


def read_notes(changelog: str, version: str) -> str:
    """The section of a version in ``CHANGELOG.md``, with absolute links. :raises UsageError: ``config-invalid``"""
    found = re.search(rf"^## {re.escape(version)}(?P<title>| .*)\n(?P<text>(?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if found is None or not found["text"].strip() or "unreleased" in found["title"]:
        raise UsageError(
            "config-invalid",
            f"CHANGELOG.md does not describe {version}",
            where="CHANGELOG.md",
            why="its heading says unreleased" if found and "unreleased" in found["title"] else "",
            remedy=f"give it a section that begins with: ## {version} (YYYY-MM-DD)",
        )
    return absolute_links(found["text"].strip(), version) + "\n"


def parse_digests(text: str) -> dict[str, str]:
    """SHA-256 by file name: one source distribution and one wheel. :raises UsageError: ``input-invalid``"""
    found = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  ([\w.-]+)$", text, re.MULTILINE)}
    if sorted(name.rpartition(".")[2] for name in found) != ["gz", "whl"] or len(found) != len(text.splitlines()):
        raise UsageError(
            "input-invalid",
            "DIGESTS does not name one source distribution and one wheel",
            why=text or "it is empty",
            remedy="give the lines that sha256sum prints",
        )
    return found


def lacking(project: IndexProject, files: Mapping[str, str], version: str = __version__) -> list[str]:
    """The files that an index lacks. :raises VerificationError: ``pypi-unsuitable``: it has others of this version"""
    there = {file.filename: file.sha256 for file in project.files.values() if file.version in ("", version)}
    if wrong := sorted(name for name, digest in there.items() if files.get(name) != digest):
        raise VerificationError(
            "pypi-unsuitable",
            f"the index has other files of {PROJECT} {version}",
            where=project.url,
            why=", ".join(f"{name} ({there[name] or 'without a sha256'})" for name in wrong),
            remedy="find out who uploaded them; a file there can't be replaced, so release another version",
        )
    return [name for name in files if name not in there]


def wait_for(index: str, files: Mapping[str, str], pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until an index has every file. Its pages may lag behind. :raises VerificationError: ``pypi-unsuitable``"""
    for seconds in (*PAUSES, 0.0):
        if not (missing := lacking(read_project(index, PROJECT), files)):
            return
        console.say(f"    not there yet: {', '.join(missing)}")
        pause(seconds)
    raise VerificationError(
        "pypi-unsuitable",
        f"the index lacks files of {PROJECT} {__version__}",
        where=index,
        why=", ".join(missing),
        remedy="see why they were not uploaded, then re-run the failed jobs: what is there already is kept",
    )


def publish(forge: Forge, tag: str, commit: str, notes: str, folder: Path, files: Mapping[str, str]) -> Release:
    """Publish the files as the release of ``tag``; complete one that was begun.

    :raises VerificationError: ``file-damaged``, ``release-tampered``
    """
    found = forge.tag(tag)
    here = {path.name: sha256_of(path) for path in folder.iterdir()}
    if here != files or found is None or found.commit != commit:
        raise VerificationError(
            "file-damaged",
            f"this is not what was built for {tag}",
            where=str(folder),
            why=f"{here} instead of {dict(files)}" if here != files else "the tag was moved or deleted",
            remedy="find out which job replaced a file, or who moved the tag; nothing was published",
        )
    release = forge.published(tag) or next(iter(forge.drafts(tag)), None)
    if release is None:
        candidate = Version(__version__).is_prerelease
        release = forge.create_draft(tag, title=f"{PROJECT} {__version__}", body=notes, prerelease=candidate)
    for name in files:
        asset = release.asset(name)
        if asset is not None and not asset.complete:
            forge.delete_asset(release, asset)
        if asset is None or not asset.complete:
            forge.upload(release, name, folder / name)
    now = forge.refresh(release)
    assert now is not None
    if (there := {asset.name: asset.sha256 for asset in now.assets}) != files:
        raise VerificationError(
            "release-tampered",
            f"the release of {tag} has other files",
            where=forge.description,
            why=", ".join(sorted({name for name, _ in there.items() ^ files.items()})),
            remedy="find out who uploaded them, and delete the draft; a published release can't be changed",
        )
    return forge.publish(now)


def main(words: Sequence[str] | None = None) -> int:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("check", "publish"):
        step = steps.add_parser(name)
        step.add_argument("tag")
        step.add_argument("branch")
    step.add_argument("folder", type=Path)
    step = steps.add_parser("compare")
    step.add_argument("index", choices=INDEXES)
    step.add_argument("--complete", action="store_true", help="wait until it has every file")
    given = parser.parse_args(words)
    try:
        if given.step == "compare":
            files, index = parse_digests(os.environ["DIGESTS"]), simple_url(INDEXES[given.index])
            if given.complete:
                wait_for(index, files)
            missing = lacking(read_project(index, PROJECT), files)
            print(f"{index} lacks {', '.join(missing)}" if missing else f"{index} has every file")
            return 0
        commit = check_tag(Git(ROOT), given.tag, given.branch)
        notes = read_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
        if given.step == "publish":
            publish(open_forge(), given.tag, commit, notes, given.folder, parse_digests(os.environ["DIGESTS"]))
            print(f"published {given.tag}")
        else:
            print(f"{given.tag} is of {commit}:\n\n{notes}")
    except ReleaseError as error:
        console.error(error)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
