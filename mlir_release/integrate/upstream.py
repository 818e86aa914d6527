"""The upstream's repository as a downstream has it: its submodule, or a private clone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import ConflictError, MachineError, UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.remotes import try_fetch, upstream_unreachable
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.git.trees import is_ancestor, merge_base
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.credentials import fetch_export, for_export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.integrate.pins.releases import Releases
    from mlir_release.integrate.tables import UpstreamTable


_TAG = re.compile(r"\w[\w./+-]*")
_SHORT = re.compile("[0-9a-f]{7,39}")

#: Where the upstream's tags are kept, apart from those of a person's clone.
_TAGS = "refs/mlir-release/tags"


@dataclass(frozen=True)
class UpstreamCommit:
    """One commit of the upstream."""

    sha: str
    tree: str
    subject: str
    body: str = field(default="", compare=False, repr=False)  #: the rest of its message

    @property
    def title(self) -> str:
        """The subject, fit for output whatever bytes it holds."""
        return shown(self.subject)

    def as_json(self) -> dict[str, str]:
        """The commit in the output of ``--json``."""
        return {"commit": self.sha, "subject": self.title}


def shown(text: str) -> str:
    """Text that may hold undecodable bytes, fit for output."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


class UpstreamRepository(SharedGit):
    """Git in that repository, and questions to the upstream there."""

    def __init__(self, directory: Path, config: UpstreamTable) -> None:
        super().__init__(directory, lazy=True)
        self.config = config
        self.ref = f"refs/mlir-release/upstream/{config.branch}"  #: the upstream's head as last fetched
        self._pinned: dict[str, str] = {}
        self._has_tags = False

    def fetch(self) -> str:
        """Fetch and return the upstream's head.

        :raises UnreachableError: if it can't be read
        :raises ConflictError: if its history was rewritten
        """
        refspec = f"refs/heads/{self.config.branch}:{self.ref}"
        source, options = self._source, []
        if not self.config.submodule:
            if self.text("config", "--get", "remote.origin.url") != self.config.url:
                self.run("config", "remote.origin.url", self.config.url)
            options = ["--filter=blob:none"]
            if self.resolve(self.ref) is None:
                console.say(f"    fetching the history of {self.config.title} for the first time: minutes, once")
        # Not --quiet: that would hide why a ref was rejected.
        done = self.run("fetch", "--no-tags", *options, "--", source, refspec, check=False, remote=source)
        stderr = done.stderr.decode(errors="replace")
        if done.returncode != 0 and ("non-fast-forward" in stderr or "rejected" in stderr):
            raise ConflictError(
                "upstream-rewritten",
                f"the upstream's branch {self.config.branch} was force-pushed: "
                "the previously fetched head is no longer in its history",
                where=self.config.url,
                why="commits that were upstream would now be taken for carried patches",
                remedy=f"look at what happened; then accept it with: git -C {self.directory} update-ref -d {self.ref}",
            )
        if done.returncode != 0:
            raise upstream_unreachable(self.config.url, why=stderr.strip(), configured_in=CONFIG_FILE)
        return self.head()

    def head(self) -> str:
        """The upstream's head as last fetched."""
        return self.resolve(self.ref) or self.fetch()

    def base_of(self, pin: str, head: str, *, recorded: str = "") -> str:
        """The upstream commit that ``pin`` is based on.

        :param recorded: the one in the branch's trailers, or empty
        :raises ConflictError: if they share no history, or the recorded one has left the upstream's history
        :raises UsageError: if this is a shallow clone that ends before it
        """
        base = merge_base(self, pin, head)
        if recorded not in ("", base) and not is_ancestor(self, recorded, head):
            raise ConflictError(
                "upstream-rewritten",
                "the upstream commit that this branch is based on is no longer in the upstream's history",
                where=f"{recorded} and {self.config.url}",
                why="the upstream was force-pushed; its lost commits would be taken for carried patches",
            )
        # An ancestor of a ref is complete; else a fetch may have been killed half-way.
        if base != pin and self.require(pin):
            base = merge_base(self, pin, head)
        if not base and self._is_shallow():
            # It only adds to a person's clone, and git notes where the history ends once all of it is there.
            named = "origin" if "origin" in self.text("remote").split() else self.config.url
            console.say(f"    fetching the history of {self.config.title}, which a clone with --depth lacks")
            asked = ("fetch", "--no-tags", "--unshallow", "--filter=blob:none", "--", named)
            if self.run(*asked, check=False, remote=named).returncode == 0:
                base = merge_base(self, pin, head)
        if not base and self._is_shallow():
            raise UsageError(
                "clone-incomplete",
                "the clone of the upstream ends before the commit that the pinned one is based on",
                where=str(self.directory),
                why="it was made with --depth, and its remote did not give the rest; carried commits can't be told "
                "from upstream's",
            )
        if not base:
            raise ConflictError(
                "upstream-rewritten",
                "the pinned commit shares no history with the upstream",
                where=f"{pin} and {self.config.url}",
            )
        return base

    def _is_shallow(self) -> bool:
        return self.text("rev-parse", "--is-shallow-repository") == "true"

    def require(self, pin: str) -> bool:
        """Fetch the commit ``pin`` with its history, from the upstream or the export, unless it is there completely.

        Returns whether something was fetched. A ref's history is complete, because git moves refs last.
        """
        if self._complete(pin):
            return False
        sources: dict[str, Mapping[str, str]] = {self.config.url: {}}
        if self.config.export is not None:
            sources[self.config.export.remote] = for_export(self, self.config.export.remote)
        reasons: list[str] = []
        for source, env in sources.items():
            fetched, said = try_fetch(self, source, f"+{pin}:refs/mlir-release/pins/{pin}", env=env)
            if fetched and self._complete(pin):
                return True
            reasons += said.strip().splitlines()
        raise MachineError(
            "commit-unreachable",
            f"{self.config.title}'s commit {pin} can't be fetched",
            where=" and ".join(sources),
            why="\n".join(dict.fromkeys(reasons)),
            remedy=f"correct {self.config.carrier}, or push the carried commit (mlir-release integrate export)",
        )

    def pinned(self, value: str, *, where: str) -> str:
        """The commit that a downstream names: by its id, an abbreviated one, a tag, or, of a release, by its version.

        :param where: the file, for errors
        :raises UsageError: ``pin-invalid``: it names none, or several
        """
        if SHA_PATTERN.fullmatch(value):
            return value
        if value not in self._pinned:
            found = self._meant(value)
            if len(found) != 1:
                some = f"it begins {len(found)} commits: {', '.join(found[:3])}" if found else "there is no such commit"
                what = "version with a commit" if self.config.releases else "commit, abbreviated commit or tag"
                raise UsageError(
                    "pin-invalid",
                    f"{visible(value)!r} is no {what} of {self.config.title}",
                    where=where,
                    why=some,
                    remedy=f"pin a {what} that {self.config.url} has",
                )
            self._pinned[value] = found[0]
        return self._pinned[value]

    def _meant(self, value: str) -> list[str]:
        if self.config.releases and (found := self.releases.commits_of(value, self._beginning)):
            return found
        if _SHORT.fullmatch(value) and (found := self._beginning(value)):
            return found
        sha = (self.resolve(f"{_TAGS}/{value}") or self._tagged(value)) if _TAG.fullmatch(value) else None
        return [sha] if sha else []

    def _tagged(self, name: str) -> str | None:
        """The commit of a tag, as the upstream has it now."""
        fetched, _ = try_fetch(self, self.config.url, f"+refs/tags/{name}:{_TAGS}/{name}")
        return self.resolve(f"{_TAGS}/{name}") if fetched else None

    def _beginning(self, digits: str) -> list[str]:
        """The commits whose ids begin so: here, or else after a fetch of the upstream, or of the carried patches."""

        def here() -> list[str]:
            named = self.run("rev-parse", f"--disambiguate={digits}").stdout
            kinds = self.run("cat-file", "--batch-check=%(objecttype) %(objectname)", input=named).stdout.decode()
            return [line.split()[1] for line in kinds.splitlines() if line.startswith("commit ")]

        if not (found := here()):
            self.fetch()
            found = here()
        if not found and self.config.export is not None and fetch_export(self, self.config.export)[0]:
            found = here()
        return found

    def spelled(self, commit: str, old: str) -> str:
        """``commit`` in the manner of ``old``: a version, with as many digits (or more, if these begin several
        commits), or the tag that names it; where there is no tag, the whole id.

        :raises UsageError: ``revision-unsuitable``: no release was made of it
        """
        if self.config.releases:
            kept = old if self._pinned.get(old) == commit else ""  # it may be yanked
            return self.releases.version(commit) or kept or self.releases.version_of(commit)
        if SHA_PATTERN.fullmatch(old):
            return commit
        if not _SHORT.fullmatch(old) or not self._beginning(old):
            return self.tag_of(commit) or commit
        return next((commit[:digits] for digits in range(len(old), 40) if self._alone(commit[:digits])), commit)

    def _alone(self, digits: str) -> bool:
        return len(self._beginning(digits)) == 1

    def tag_of(self, commit: str, *, nearest: bool = False) -> str:
        """The upstream's tag that names ``commit``, the highest of several; empty if there is none.

        :param nearest: or else the last tag before it
        :raises UnreachableError: if the upstream can't be read
        """
        if not self._has_tags:
            fetched, why = try_fetch(self, self._source, f"+refs/tags/*:{_TAGS}/*")
            if not fetched:
                raise upstream_unreachable(self.config.url, why=why.strip(), configured_in=CONFIG_FILE)
            self._has_tags = True
        which = f"--merged={commit}" if nearest else f"--points-at={commit}"
        order = ("--sort=-version:refname", *(("--sort=-creatordate",) if nearest else ()))
        named = self.text("for-each-ref", which, *order, "--format=%(refname)", f"{_TAGS}/").splitlines()
        tags = (name.removeprefix(f"{_TAGS}/") for name in named)
        return next(filter(_TAG.fullmatch, tags), "")  # others could mean something to the file's own language

    @property
    def _source(self) -> str:
        """The remote to fetch from: in our own clone without blobs, they come from its remote."""
        return self.config.url if self.config.submodule else "origin"

    @cached_property
    def releases(self) -> Releases:
        """The releases that a pin can name. :raises MachineError: if the list can't be read"""
        from mlir_release.integrate.pins.releases import read_releases  # which few need

        return read_releases(self.config.releases, self.config.distribution)

    def _complete(self, pin: str) -> bool:
        done = self.run("rev-list", "-n1", pin, "--not", "--all", check=False)
        return done.returncode == 0 and not done.stdout

    def affecting(self, base: str, until: str, paths: Sequence[str] = ()) -> list[UpstreamCommit]:
        """Upstream commits after ``base`` up to ``until`` that touch the tracked paths, but ignored ones, oldest first.

        Along first parents, so that every commit has one predecessor. One ``git log``: cost grows with the range.
        Where the pin is a release, the commits of releases, whatever they touch themselves.

        :param paths: in place of the tracked ones
        """
        if self.config.releases:
            listed = self._log("--first-parent", "--reverse", f"{base}..{until}")
            return [commit for commit in listed if self.releases.version(commit.sha)]
        commits = self._log("--first-parent", "--reverse", f"{base}..{until}", "--", *(paths or self.config.paths))
        ignored = [re.compile(pattern) for pattern in self.config.ignore_subjects]
        return [commit for commit in commits if not any(pattern.search(commit.subject) for pattern in ignored)]

    def _log(self, *args: str) -> Iterator[UpstreamCommit]:
        output = self.run("log", "-z", "--format=%H%x00%T%x00%s%x00%b", *args).stdout.decode(errors="surrogateescape")
        fields = iter(output.split("\0"))
        return map(UpstreamCommit, fields, fields, fields, fields)

    def touched(self, commits: Iterable[str], *, check: bool = True) -> dict[str, list[str]]:
        """The paths that each commit changes from its first parent; one process for all.

        :param check: False: commits that are not here are left out
        """
        asked = "".join(f"{commit}\n" for commit in commits).encode()
        listing = ("diff-tree", "--stdin", "-r", "-m", "--first-parent", "--root", "--name-only", "--format=%x01%H")
        output = self.run(*listing, input=asked, check=check).stdout if asked else b""
        records = (record.split("\n") for record in output.decode(errors="replace").split("\x01")[1:])
        return {sha: [path for path in paths if path] for sha, *paths in records}

    def commit(self, revision: str) -> UpstreamCommit:
        """Exactly the commit that ``revision`` names; tags are fetched if need be.

        The upstream's branch, and HEAD, mean its head as last fetched, not what is checked out or a local branch.

        :raises UsageError: unless it names exactly one
        """
        branch = self.config.branch
        sha = self.resolve(self.ref if revision in ("HEAD", branch, f"origin/{branch}") else revision)
        if sha is None and _TAG.fullmatch(revision):
            sha = self._tagged(revision)
        if sha is None:
            raise UsageError(
                "revision-unknown",
                f"{revision!r} names no commit of the upstream",
                where=str(self.directory),
                why="it does not exist, was not fetched, or is an abbreviation of several commits",
            )
        return next(self._log("-1", sha))

    def within(self, revision: str, base: str, head: str) -> UpstreamCommit:
        """The commit that ``revision`` names, if it lies after ``base`` and up to ``head``. :raises UsageError:"""
        commit = self.commit(revision)
        if commit.sha == base or not is_ancestor(self, base, commit.sha):
            reason = "it does not come after the commit that the branch is at"
        elif not is_ancestor(self, commit.sha, head):
            reason = f"it is not in the history of the upstream's {self.config.branch}"
        else:
            return commit
        raise UsageError(
            "revision-unsuitable",
            f"can't advance to {revision!r} ({commit.sha}): {reason}",
            where=f"{base}..{head}",
            remedy="mlir-release integrate status lists the commits ahead; nothing was changed",
        )
