"""Mistakes that any workflow can have (injections, loose actions, rights that nothing needs): zizmor finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlir_release.ground.documents.decode import MalformedError, from_json, is_plain_name
from mlir_release.ground.programs.needs import install_extra
from mlir_release.ground.programs.process import capture, installed_program
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.operate.doctor.files import LINT_FILE, Examined
from mlir_release.operate.doctor.results import Answer, ok, problem, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: Findings below these are for the workflows' authors; ``make lint`` shows them. No network is used.
_OPTIONS = ("--offline", "--quiet", "--no-progress", "--no-exit-codes", "--strict-collection", "--format=json-v1",
            "--min-severity=medium", "--min-confidence=medium")  # fmt: skip

#: Seconds. It needs less than one.
_TIMEOUT = 60

#: Places of one mistake that are shown.
_SHOWN = 5


class _Audit(msgspec.Struct, frozen=True):
    """A finding of zizmor's."""

    ident: str
    desc: str
    url: str
    locations: list[dict[str, Any]]


def lint(known: Examined, find: Callable[[str], str | None] = installed_program) -> Iterator[Answer]:
    """Whether zizmor, where ``find`` says it is, finds something by the repository's own settings for it."""
    files = known.seen.files or {}
    program = find("zizmor")
    names = [*known.contents.workflows, *([LINT_FILE] if LINT_FILE in files else [])]
    if not known.contents.workflows:
        return
    if program is None:
        remedy = f"{install_extra('lint')}; or run zizmor and actionlint there"
        yield unknown("zizmor, which finds mistakes in workflows, is not installed", remedy)
        return
    with scratch_folder("lint") as folder:
        for path in names:
            name = path.rpartition("/")[2]
            if is_plain_name(name):
                target = folder / (LINT_FILE if path == LINT_FILE else f".github/workflows/{name}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files[path])
        ran = capture([program, *_OPTIONS, "."], cwd=folder, timeout=_TIMEOUT, encoding="utf-8", ours=True)
    if not ran.ok:
        why = " ".join(ran.complaint.partition("Stack backtrace:")[0].split())
        show = unknown if ran.returncode is None else problem
        yield show(f"zizmor can't read the workflows: {why}", "run zizmor and actionlint in a checkout")
        return
    places: dict[tuple[str, str], list[str]] = {}
    try:
        for audit in from_json(ran.stdout, list[_Audit]):
            primary = next(row for row in audit.locations if row["symbolic"]["kind"] == "Primary")
            name = Path(primary["symbolic"]["key"]["Local"]["verbatim_path"]).name
            place = f"{name}:{primary['concrete']['location']['start_point']['row'] + 1}"
            places.setdefault((f"{audit.ident}: {audit.desc}", audit.url), []).append(place)
    except (MalformedError, LookupError, TypeError, StopIteration) as error:
        yield unknown(f"zizmor's answer can't be read: {error}", "run zizmor in a checkout")
        return
    for (text, url), found in places.items():
        shown = [*dict.fromkeys(found)][:_SHOWN]
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        yield problem(f"{text}, at {', '.join(shown)}{more}", f"see {url}; actionlint finds other mistakes")
    if not places:
        number = len(known.contents.workflows)
        yield ok(f"zizmor finds nothing in {number} workflows")
