"""Names of workflow jobs: ``<stage>: <details>``, so that a job's stage is a prefix of its name.

GitHub joins the names of calling and called jobs with `` / ``: ``linux-x86_64 / sdk: linux-x86_64``, and, where a
downstream calls ``integrate.yml``, ``LLVM / integrate: plan round``.
"""

from __future__ import annotations

import re

#: ``bump`` (select, pin, tag), ``publish`` (upload, verify, index, PyPI), ``report`` (issues), ``checks`` (this
#: repository's own), ``toolkit`` (its own release); the others are named for what they make.
STAGES = ("bump", "plan", "sdk", "wheels", "tests", "publish", "report", "integrate", "checks", "toolkit")

#: In the names of jobs whose targets no release waits for.
EXPERIMENTAL = "experimental"

#: The stages whose jobs work on several targets of a platform, one after the other.
GROUPED = ("wheels", "tests")

#: The stage of jobs that have no such name: other people's, and ours before they were named so.
OTHER = "other"

_JOINT = " / "
_LONGEST = 100
_RESUMED = " (resumed)"
_PROBE = re.compile(r"publish: clean-environment check \(([^()]+)\)")
#: What tells jobs that do the same from each other: a commit that is probed, a platform, a part of its targets.
_ONE_OF_MANY = re.compile(r" (?:[0-9a-f]{40}|\([^()]*\))$")


def split_job_name(name: str) -> tuple[str, str]:
    """The stage that a job belongs to, and what it does there: mostly a target or a platform; :data:`OTHER`, or "".

    A commit or words in parentheses at the end are left out: probes of different commits do the same.
    """
    for part in name.split(_JOINT):
        stage, colon, details = part.partition(": ")
        if colon and stage in STAGES:
            return stage, _ONE_OF_MANY.sub("", details)
    return OTHER, ""


def probe_job(probe: str) -> str:
    """The job of ``integrate.yml`` that makes a probe, as GitHub lists it: a longer name loses its end."""
    name = f"integrate: probe {probe}"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def own_name(name: str) -> str:
    """The name without those of the jobs that called it."""
    return name.rpartition(_JOINT)[2]


def sdk_jobs(runtime: str) -> tuple[str, str]:
    """The jobs that make a platform's SDK: the first, and the second that resumes it where it ran out of time."""
    return f"sdk: {runtime}", f"sdk: {runtime}{_RESUMED}"


def is_about(name: str, runtime: str) -> bool:
    """Whether a job works for a platform: it is named for it, or was called by one that is."""
    *callers, _ = name.split(_JOINT)
    return runtime in callers or split_job_name(name)[1] == runtime


def work_of(name: str) -> tuple[str, ...]:
    """What jobs have in common that divide one work, or repeat it in another run.

    That is all of a job's name but its number, and which of an SDK's two it is.
    """
    words = own_name(name).partition(" (")[2].removesuffix(")").split(", ")
    return (*split_job_name(name), *(word for word in words if word not in ("", "resumed") and not word.isdigit()))


def group_name(runtime: str, *words: str) -> str:
    """What a job of :data:`GROUPED` has behind its stage: the platform, and which of its targets."""
    return f"{runtime} ({', '.join(words)})" if words else runtime


def is_experimental(name: str) -> bool:
    """Whether no release waits for the targets of a job of :data:`GROUPED`."""
    return own_name(name).partition(" (")[2].startswith(EXPERIMENTAL)


#: The step of a canary's job that fails if the canary's own tests did. Any other step's failure makes it broken.
FAILED_STEP = "Run the canary's tests"


def canary_job(name: str, tag: str) -> str:
    """The job of ``canary.yml`` that tries a canary with a release."""
    return f"tests: canary {name} ({tag})"


def probe_tag(name: str) -> str:
    """The release that a job of ``probe.yml`` checked; empty for any other job."""
    match = _PROBE.fullmatch(name)
    return match[1] if match else ""


def heading(target: str) -> str:
    """The line of a job's log after which everything is about a target."""
    return f"== {target} =="
