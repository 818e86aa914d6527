"""Every error that a user can meet, and the exit code that each kind ends the process with.

An error says what happened, where, why, and what to do next, and carries a stable id that scripts may match on
(also in ``--json``). The class gives the exit code. The id says what kind of reaction helps: one id stands for many
causes, which the message tells apart, and always has the same exit code.
:data:`ERRORS` has every id; ``docs/errors.md`` is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of ``mlir-release``; few, so that a workflow can branch on them."""

    OK = 0
    INTERNAL = 1  #: a bug of ours: the message names a file with the traceback
    USAGE = 2  #: bad arguments, configuration or input files (2 is click's, too)
    ENVIRONMENT = 3  #: the machine lacks something: a tool, a CPython, disk space, network
    CONFLICT = 4  #: someone else changed what we were changing; running again may help
    FORGE = 5  #: the forge refused or could not be reached
    VERIFICATION = 6  #: what was built or published is not what it should be
    NEEDS_PERSON = 7  #: only a person can decide how to go on
    UNTESTABLE = 125  #: as in ``git bisect run``


@dataclass(frozen=True)
class Meaning:
    """What an id says to someone who meets it."""

    what: str  #: the situation
    remedy: str  #: what helps; an error that knows more gives its own


#: Every id by exit code. Packages that add commands may use ids of their own.
ERRORS: dict[ExitCode, dict[str, Meaning]] = {
    ExitCode.INTERNAL: {
        "internal-error": Meaning("mlir-release has a bug",
            "report it with the command and the file that has the traceback"),
    },
    ExitCode.USAGE: {
        "branch-missing": Meaning("a repository lacks the branch that the command needs",
            "create the branch, or correct its name in the option or the configuration file"),
        "clone-incomplete": Meaning("a clone has too little of the history or of its trees",
            "git fetch --unshallow --filter=blob:none"),
        "config-invalid": Meaning("a configuration file (targets.toml, integrate.toml, a workflow, a list) has a "
            "mistake, or lacks an entry",
            "correct the file at the place that is named"),
        "input-invalid": Meaning("a file or folder that was given can't be used for this",
            "give another one, or make it again"),
        "input-missing": Meaning("a file, folder or forge that the command needs is not there",
            "correct its path or address, or make it first"),
        "integrate-not-started": Meaning("the checkout is on no integrate branch",
            "mlir-release integrate start, or git switch to the integrate branch"),
        "needs-github": Meaning("this works only with a repository on GitHub, or only in a run of its workflows",
            "name the repository with --forge github:OWNER/NAME, or start the workflow that does this"),
        "nothing-to-do": Meaning("nothing is there that the command could work on",
            "check that you need it at all; the message says what comes before it"),
        "option-invalid": Meaning("an argument or option can't be read, names something unknown, is missing, or "
            "contradicts another one",
            "correct the command; the message says what is possible, and --help shows all options"),
        "output-in-the-way": Meaning("something else is where the output would go, or a link leads out of the folder",
            "name another folder, or move away what is there; nothing was overwritten"),
        "pin-invalid": Meaning("the pin is not one full llvm-project commit; or a file does not say which upstream "
            "commit it pins, or two places disagree",
            "put the full 40-digit llvm-project commit there, alone on one line (mlir-release pin set REVISION); for "
            "an integrate, correct the file, or its pattern in integrate.toml"),
        "python-missing": Meaning("the CPython that was asked for is not there, is too old, or has no wheels of what "
            "it needs",
            "choose another one with --python, or install it"),
        "release-not-published": Meaning("no published release has that tag",
            "mlir-release release list shows what is published; a private repository needs a token in GITHUB_TOKEN"),
        "release-unsuitable": Meaning("this can't be done with that release: of its kind, of what it lacks, or "
            "because it is published",
            "choose another release, or make one"),
        "revision-unknown": Meaning("no commit, or more than one, is meant by the revision",
            "give all 40 digits of a commit that is upstream, a tag or a branch"),
        "revision-unsuitable": Meaning("the commit exists, but can't be built, released, or used at this place of the "
            "history",
            "choose another revision"),
        "sdk-mismatch": Meaning("the SDK is of another revision, version, configuration or platform than is needed",
            "give the SDK that fits, or make one: mlir-release sdk provide"),
        "tag-missing": Meaning("the repository has no such tag, or no draft of it",
            "mlir-release tag list shows the tags; mlir-release snapshot makes or resumes one"),
    },
    ExitCode.ENVIRONMENT: {
        "commit-unreachable": Meaning("a commit that is pointed at can't be fetched here",
            "push it from the machine that has it (mlir-release integrate export)"),
        "disk-full": Meaning("the disk has too little room", "make room, then run this again: completed work is kept"),
        "input-unusable": Meaning("a file or an answer is too large, too deeply nested, or not text",
            "find the input by the traceback in that file, and correct it"),
        "interrupted": Meaning("a build or a smoke test was stopped before its end",
            "run the same command again: it resumes"),
        "machine-unsuitable": Meaning("this machine can't do it: its system, its memory, or containers that can't be "
            "run",
            "use another machine"),
        "network-failed": Meaning("a server, a remote, or the package index could not be reached, or refused",
            "check the network, the address and the proxy settings (HTTPS_PROXY, NO_PROXY), then run this again"),
        "no-python": Meaning("this machine has no CPython that works and can be used for this",
            "install one with its headers (pyenv install 3.12; apt install python3-dev), or name one with --python"),
        "plugin-unusable": Meaning("a package that adds commands can't be imported, or clashes with another one",
            "uninstall that distribution with pip, or update it"),
        "program-failed": Meaning("a program that is installed failed",
            "read what it said; correct that, then run this again"),
        "sources-unavailable": Meaning("the sources of LLVM can't be had here",
            "check the network, or give the sources with --source"),
        "system-refused": Meaning("the system refused to read or write something",
            "check the path, its permissions and the space on its disk, then run the same command again"),
        "tool-missing": Meaning("a program, a library, an extra of this toolkit, or a setting of a program is missing",
            "install or set what is named"),
    },
    ExitCode.CONFLICT: {
        "branch-diverged": Meaning("a branch has other commits elsewhere than here",
            "bring both together (mlir-release integrate sync, or git rebase), then run this again"),
        "changed-meanwhile": Meaning("another run changed the release meanwhile",
            "wait for the other run to end, then look at the release again"),
        "checkout-dirty": Meaning("a checkout or folder holds work that would be lost or mixed up",
            "commit, stash, move or discard it first; nothing was changed"),
        "lost-race": Meaning("somebody else got there first: a branch moved, a name is taken, a lock is held",
            "wait for the other process to end, then run this again: it looks anew"),
        "push-failed": Meaning("commits could not be pushed",
            "check the address, the network and your rights there, then run the same command again"),
        "upstream-rewritten": Meaning("upstream's branch was force-pushed, or shares no history with the pin",
            "look at what happened; start from a pin that is upstream"),
    },
    ExitCode.FORGE: {
        "forge-damaged": Meaning("a file of the local forge is damaged",
            "check the disk; if the release is a draft, discard the target and build it again"),
        "forge-rate-limited": Meaning("GitHub's rate limit is used up", "run this again later: completed work is kept"),
        "forge-refused": Meaning("the forge or PyPI refused a request",
            "read the reason; if it makes no sense, run this again, and report it if that fails, too"),
        "forge-unreachable": Meaning("the forge or Sigstore does not answer",
            "check the network and the status page, then run this again: completed work is kept"),
        "local-forge-failed": Meaning("the folder of a local forge can't be read or written",
            "make room, or run this as the owner of the folder; then run it again: nothing was left half-done"),
        "not-on-forge": Meaning("the repository, tag, workflow, pull request, draft or file is not on the forge, or "
            "hidden from the token",
            "check the name, and that the token may see it"),
        "release-immutable": Meaning("the release is published, and a published release never changes",
            "make another release; mlir-release release yank hides this one"),
        "rule-forbids": Meaning("a protection rule of the repository forbids the change",
            "mlir-release doctor says which rules apply"),
        "token-invalid": Meaning("GitHub does not accept the token",
            "put a valid one in GITHUB_TOKEN; it may have expired"),
        "token-lacks-right": Meaning("the token may not do this",
            "give it the right that is named; mlir-release doctor says what is missing"),
    },
    ExitCode.VERIFICATION: {
        "build-failed": Meaning("a wheel, or a project on top of it, could not be built",
            "read the end of its log; fix the cause, then build it again"),
        "file-damaged": Meaning("a file is not what it should be, or is where it does not belong",
            "get or make it again; in a draft, first remove it (mlir-release publish TAG --discard FILE)"),
        "install-failed": Meaning("a wheel can't be installed or imported",
            "see the output; use a virtual environment without another package called mlir"),
        "land-unreachable": Meaning("the branch points at commits that others can't fetch",
            "mlir-release integrate export, from the machine that has them; then land again"),
        "latest-stale": Meaning("the signed pointer to the newest snapshot is too old, or from the future",
            "check this machine's clock; name the tag of a snapshot, or have the pointer renewed (docs/operating.md)"),
        "llvm-unsuitable": Meaning("no SDK can be made from this LLVM",
            "use another one, or build an SDK from source: mlir-release sdk build"),
        "model-unsuitable": Meaning("a policy, its corpus and the compiler don't fit together, or the result is wrong "
            "or not better",
            "take what belongs to one LLVM, and make it again in order: corpus, trace, train, evaluate"),
        "no-fitting-wheel": Meaning("the release has no wheel for this CPython on this machine",
            "use another CPython, another platform or another tag"),
        "provenance-missing": Meaning("nobody signed the file or the release, and it has to be signed",
            "do not use it; --provenance skip is for those who trust everyone who can write there"),
        "pypi-unsuitable": Meaning("the release can't go to PyPI as it is, or what is there differs",
            "see what is named; number another release if the wheels have to change"),
        "release-tampered": Meaning("a published release is not what its manifest says",
            "do not use it; its maintainers yank or delete it, and make another one"),
        "revision-not-upstream": Meaning("the llvm-project commit is on no branch of upstream",
            "don't build or publish it; find out who made it"),
        "signature-invalid": Meaning("the signature is broken, from somebody else, or for another file or release",
            "do not use the file: the release process did not make it; tell the repository's maintainers"),
        "tampered": Meaning("the release process did not make a tag, a commit, a run or a file",
            "don't publish or install it; find out who made it; abandon that tag, then make another"),
        "tests-failed": Meaning("tests failed, or could not be run to their end",
            "read the log; fix the cause, then run them again"),
        "wheel-unsuitable": Meaning("a wheel is not of this release, clashes with another one, or is not what its "
            "metadata says",
            "build it from the tag itself; keep the folders of different releases apart"),
    },
    ExitCode.NEEDS_PERSON: {
        "already-published": Meaning("the tag or its version is published, and never changes again",
            "if nobody should use it: mlir-release release yank TAG --reason …"),
        "nothing-green": Meaning("no upstream commit has the checks that the policy wants",
            'wait for upstream, name a revision, or set fallback = "head" in [release.green]'),
        "numbers-exhausted": Meaning("the next tag can't be numbered: all are used, or one is dated in the future",
            "wait for the next UTC day, or find out who makes these tags"),
        "patch-conflict": Meaning("a carried patch or the main branch does not apply without conflicts",
            "resolve it by hand, as the message says"),
        "pypi-name-foreign": Meaning("the project on PyPI belongs to somebody else",
            "have the name transferred (PEP 541), then name its owner with --owner"),
        "release-not-ready": Meaning("targets that are required are missing or failing",
            "build and test them (mlir-release matrix --missing TAG), or mlir-release release waive TAG TARGET"),
        "release-pending": Meaning("a release is pending that has to end first",
            "let it be published, or mlir-release release abandon TAG --reason …"),
        "repository-private": Meaning("signing would publish names of a repository that is not public",
            'set provenance = "none" in [release] of targets.toml, or use a Sigstore of your own'),
        "smoke-failed": Meaning("the smoke test fails, or no probe had an answer",
            "read its log, fix the cause, and run it again"),
        "tag-abandoned": Meaning("the tag was abandoned",
            "make another: mlir-release snapshot --force, or mlir-release release start"),
        "tag-foreign": Meaning("somebody made or changed a tag or a release by hand",
            "use another one; abandon or delete it if nobody needs it"),
        "walk-needs-person": Meaning("the walk stopped at a commit that a person must look at",
            "follow the report's advice"),
    },
}  # fmt: skip

#: By id alone.
MEANINGS: dict[str, Meaning] = {id: meaning for ids in ERRORS.values() for id, meaning in ids.items()}


#: What an error shows of a longer reason, such as a program's output: lines at its begin and end, characters of a line.
_HEAD, _TAIL, _WIDTH = 20, 60, 4000


class ReleaseError(Exception):
    """Base of all expected failures. Raise a subclass.

    :param id: one of :data:`ERRORS`, for example ``pin-invalid``
    :param what: one sentence: what happened, on what
    :param where: file, ref, tag or URL concerned
    :param why: the reason, where it is not obvious from ``what``; the middle of a very long one is left out
    :param remedy: what the person does next, where that is more than the id's own remedy says
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, id: str, what: str, *, where: str = "", why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.id = id
        self.what = what
        self.where = where
        lines = why.splitlines() if len(why) > _WIDTH or why.count("\n") > _HEAD + _TAIL else []
        if len(lines) > _HEAD + _TAIL + 1:
            lines[_HEAD:-_TAIL] = [f"… {len(lines) - _HEAD - _TAIL} lines left out …"]
        self.why = "\n".join(line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in lines) or why
        self.remedy = remedy or (MEANINGS[id].remedy if id in MEANINGS else "")
        self.details: dict[str, object] = {}  #: appear beside the error in ``--json``

    def __str__(self) -> str:
        fields = {"where": self.where, "why": self.why, "to do": self.remedy}
        parts = (self.what, *(f"  {name}: {text}" for name, text in fields.items() if text))
        # Further lines stand deeper than ours, so that text of others in them can't pass for a remedy.
        return "\n".join(part.replace("\n", "\n    ") for part in parts)

    def to_json(self) -> dict[str, object]:
        """The error as ``--json`` prints it."""
        return {
            "error": self.id,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "remedy": self.remedy,
            "exit_code": int(self.exit_code),
            **self.details,
        }


class UsageError(ReleaseError):
    """Arguments, configuration or an input file are wrong."""

    exit_code = ExitCode.USAGE


class MachineError(ReleaseError):
    """The machine lacks something that the command needs."""

    exit_code = ExitCode.ENVIRONMENT


class ConflictError(ReleaseError):
    """Someone else got there first; nothing was changed by us."""

    exit_code = ExitCode.CONFLICT


class ForgeError(ReleaseError):
    """The forge (GitHub, or the local folder) refused a request or did not answer."""

    exit_code = ExitCode.FORGE


class VerificationError(ReleaseError):
    """A wheel, SDK, release or index is not what it must be."""

    exit_code = ExitCode.VERIFICATION


class NeedsPersonError(ReleaseError):
    """The tool stops because only a person can decide."""

    exit_code = ExitCode.NEEDS_PERSON
