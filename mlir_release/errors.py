"""Every error that a user can meet, and the exit code that each kind ends the process with.

An error says what happened, where, why, and what to do next, and carries a stable id that scripts may match on
(also in ``--json``). The class gives the exit code; the id, unique to one cause, is given where it is raised.
``docs/errors.md`` lists all of them; a test keeps the list true.
"""

from __future__ import annotations

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


class ReleaseError(Exception):
    """Base of all expected failures. Raise a subclass.

    :param id: stable kebab-case identifier of the cause, for example ``pin-missing``
    :param what: one sentence: what happened, on what
    :param where: file, ref, tag or URL concerned
    :param why: the reason, where it is not obvious from ``what``
    :param remedy: what the person does next
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, id: str, what: str, *, where: str = "", why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.id = id
        self.what = what
        self.where = where
        self.why = why
        self.remedy = remedy
        self.details: dict[str, object] = {}  #: appear beside the error in ``--json``

    def __str__(self) -> str:
        fields = {"where": self.where, "why": self.why, "to do": self.remedy}
        parts = (self.what, *(f"  {name}: {text}" for name, text in fields.items() if text))
        # Further lines stand deeper than ours, so that text of others in them can't pass for a remedy.
        return "\n".join(part.replace("\n", "\n    ") for part in parts)

    def as_json(self) -> dict[str, object]:
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
