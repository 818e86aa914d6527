"""Names of workflow jobs: ``<stage>: <details>``, so that a job's stage is a prefix of its name.

GitHub joins the names of calling and called jobs with `` / ``: ``sdk: linux-x86_64 / build``, and, where a downstream
calls ``integrate.yml``, ``LLVM / integrate: plan round``.
"""

from __future__ import annotations

import re

#: ``bump`` (select, pin, tag), ``publish`` (upload, verify, index, PyPI), ``report`` (issues), ``checks`` (this
#: repository's own); the others are named for what they make.
STAGES = ("bump", "plan", "sdk", "wheels", "tests", "publish", "report", "integrate", "checks")

#: The stage of jobs that have no such name: other people's, and ours before they were named so.
OTHER = "other"

_JOINT = " / "
_COMMIT = re.compile(r" [0-9a-f]{40}$")


def split_job_name(name: str) -> tuple[str, str]:
    """The stage that a job belongs to, and what it does there: mostly a target or a platform; :data:`OTHER`, or "".

    A commit at the end is left out: probes of different commits do the same.
    """
    for part in name.split(_JOINT):
        stage, colon, details = part.partition(": ")
        if colon and stage in STAGES:
            return stage, _COMMIT.sub("", details)
    return OTHER, ""


def calling_job(name: str) -> str:
    """The name without those of called jobs: an SDK's jobs have it in common."""
    return name.partition(_JOINT)[0]


def sdk_jobs(runtime: str) -> tuple[str, str]:
    """The jobs that make a platform's SDK: the first, and the second that resumes it where it ran out of time."""
    caller = f"sdk: {runtime}"
    return f"{caller}{_JOINT}build", f"{caller}{_JOINT}resume"


def wheel_job(target: str) -> str:
    """The job that builds a wheel."""
    return f"wheels: {target}"


def suite_job(target: str) -> str:
    """The job that runs a suite."""
    return f"tests: {target}"
