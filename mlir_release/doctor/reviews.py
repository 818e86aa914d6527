"""Whether changes of the toolkit are reviewed, and vulnerabilities can be reported in private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, adopt_command, hidden, verdict
from mlir_release.forge.codeowners import CODEOWNERS_FILE, unowned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.github.observations import Observations

#: What people read who found a vulnerability.
SECURITY_FILE = "SECURITY.md"


def examine_reviews(seen: Observations) -> Iterator[Finding]:
    """Whether every file has an owner, and there is a way to report a vulnerability that is not public."""
    if seen.files is not None:  # else the check of the files says so
        yield _owners(seen, seen.files.get(CODEOWNERS_FILE))
        yield verdict(
            "security-policy",
            SECURITY_FILE in seen.files,
            f"{seen.branch} {'has' if SECURITY_FILE in seen.files else 'lacks'} {SECURITY_FILE}",
            "copy it from the toolkit's repository",
        )
    check = "private-reports"
    if seen.private:
        yield Finding(check, "ok", "the repository is private: only its members see issues")
    elif seen.private_reports is None:
        what = "whether vulnerabilities can be reported in private"
        yield hidden(seen, check, what, asked="private-vulnerability-reporting", usual="administration: read")
    else:
        yield verdict(
            check,
            seen.private_reports,
            f"vulnerabilities can {'' if seen.private_reports else 'not '}be reported in private",
            "Settings > Advanced Security: enable private vulnerability reporting",
        )


def _owners(seen: Observations, content: bytes | None) -> Finding:
    check = "code-owners"
    if content is None:
        text = f"{seen.branch} lacks {CODEOWNERS_FILE}: a change of the toolkit needs nobody's review"
        return Finding(check, "problem", text, adopt_command(seen.repository))
    without = unowned(content.decode("utf-8", errors="replace"))
    if without:
        text = f"{CODEOWNERS_FILE} has no owner for {', '.join(without)}"
        return Finding(check, "problem", text, "give every pattern an owner, and * before all others")
    if seen.codeowners_errors is None:
        what = f"whether the owners in {CODEOWNERS_FILE} have access"
        return hidden(seen, check, what, asked="codeowners", usual="contents: read")
    return verdict(
        check,
        not seen.codeowners_errors,
        f"{CODEOWNERS_FILE}: {'; '.join(seen.codeowners_errors) or 'every file has an owner'}",
        "name users or teams that exist and have write access to the repository",
    )
