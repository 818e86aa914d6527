"""Actions that are named by a tag, nested ones too, that run on an old Node, or whose files can't be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.operate.doctor.actions import _COMMIT, all_uses
from mlir_release.operate.doctor.files import Action, Workflow, parse
from mlir_release.release.forge.observations import AllowedActions
from tests.healthy import ACTION, CI_PATH, FILES, ROOT, found, read_used
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.operate.doctor.actions import Read

SHA = "0123456789abcdef0123456789abcdef01234567"
HOME = "openxla/stablehlo"


def reader(files: dict[str, str]) -> Read:
    """Files by ``OWNER/NAME:PATH@REF``; the healthy ones where there is none."""

    def read(repository: str, path: str, ref: str) -> bytes | None:
        given = files.get(f"{repository}:{path}@{ref}")
        return read_used(repository, path, ref) if given is None else given.encode()

    return read


def composite(*uses: str) -> str:
    steps = "".join(f"\n    - uses: {text}" for text in uses)
    return f"runs:\n  using: composite\n  steps:{steps}\n"


def workflow(*uses: str) -> bytes:
    steps = "".join(f"\n      - uses: {text}" for text in uses)
    return f"on: push\njobs:\n  test:\n    runs-on: x\n    permissions: {{}}\n    steps:{steps}\n".encode()


def uses_of(content: bytes, files: dict[str, str]) -> dict[str, str]:
    """What a workflow uses, as shown to people, with its runtime."""
    workflows = {CI_PATH: parse(content, Workflow, where=CI_PATH)}
    used = all_uses(workflows, repository=HOME, branch="trunk", read=reader(files))
    return {use.label: str(use.runtime) for use in used}


def test_nested_uses_are_followed_and_each_is_read_once() -> None:
    asked: list[str] = []
    files = {
        f"owner/outer:deep/action.yml@{SHA}": composite("owner/inner@v1", "docker://alpine:3", "$/beside", "./local"),
        "owner/inner:action.yaml@v1": "runs: {using: node20, main: x.js}",
        f"owner/outer:beside/action.yml@{SHA}": composite(f"owner/outer/deep@{SHA}"),  # in a circle
        f"{HOME}:local/action.yml@trunk": composite("owner/inner@v1"),
    }
    read = reader(files)

    def listening(repository: str, path: str, ref: str) -> bytes | None:
        asked.append(f"{repository}:{path}@{ref}")
        return read(repository, path, ref)

    workflows = {CI_PATH: parse(workflow(f"owner/outer/deep@{SHA}"), Workflow, where=CI_PATH)}
    uses = all_uses(workflows, repository=HOME, branch="trunk", read=listening)
    outer = f"owner/outer/deep@{SHA}"
    assert {use.label: use.runtime for use in uses} == {
        outer: "composite",
        f"owner/inner@v1 (inside {outer})": "node20",
        f"$/beside (inside {outer})": "composite",
        f"./local (inside {outer})": "composite",
    }
    assert len(asked) == len(set(asked))


def test_workflows_that_are_called_are_read_and_their_own_actions_are_beside_them() -> None:
    called = f"owner/kit/.github/workflows/go.yml@{SHA}"
    content = f"on: push\njobs: {{call: {{uses: {called}}}, own: {{uses: ./.github/workflows/own.yml}}}}\n".encode()
    inner = "on: workflow_call\njobs: {a: {runs-on: x, steps: [{uses: $/tool}]}, b: {uses: ./.github/workflows/b.yml}}"
    files = {
        f"owner/kit:.github/workflows/go.yml@{SHA}": inner,
        f"owner/kit:.github/workflows/b.yml@{SHA}": workflow("actions/cache/save@v4").decode(),
        f"owner/kit:tool/action.yml@{SHA}": ACTION.decode(),
        f"{HOME}:.github/workflows/own.yml@trunk": workflow("docker://alpine").decode(),
        "actions/cache:save/action.yml@v4": "runs: {using: node20}",
    }
    assert uses_of(content, files) == {
        called: "",
        "$/.github/workflows/own.yml": "",
        f"$/tool (inside {called})": "node24",
        f"$/.github/workflows/b.yml (inside {called})": "",
        f"actions/cache/save@v4 (inside {called})": "node20",
    }


def test_what_can_not_be_read_or_is_no_action_has_no_runtime() -> None:
    files = {
        "owner/empty:action.yml@v1": "name: nothing",
        "owner/broken:action.yml@v1": "[",
        "owner/x:action.yml@v1": "a",
    }
    uses = [f"owner/{name}@v1" for name in ("empty", "broken", "x", "absent")]
    assert uses_of(workflow(*uses), files) == dict.fromkeys(uses, "None")
    (finding,) = found("action-files", reader(files), files={**FILES, CI_PATH: workflow(*uses)})
    assert (finding.level, finding.text) == ("unknown", f"can't be read: {', '.join(uses)}")
    assert found("action-files", reader(files), files={**FILES, CI_PATH: workflow("./not/there")}) == []


def test_an_action_that_names_another_by_tag_is_refused_where_commits_are_required() -> None:
    outer = "actions/upload-pages-artifact"
    pages = FILES[".github/workflows/pages.yml"].decode()
    pinned = next(word for word in pages.split() if word.startswith(outer))
    read = reader({f"{outer}:action.yml@{pinned.partition('@')[2]}": composite("actions/upload-artifact@v4")})
    for required, level in ((True, "problem"), (False, "ok"), (None, "unknown")):
        (finding,) = found("pinned-actions", read, commits_required=required)
        assert finding.level == level
        assert f"actions/upload-artifact@v4 (inside {pinned})" in finding.text
        assert bool(finding.remedy) == (level != "ok")


def test_a_workflow_that_is_called_may_be_named_by_its_branch() -> None:
    content = (
        b"on: push\njobs: {call: {permissions: {}, uses: llvm/mlir-release/.github/workflows/integrate.yml@main}}\n"
    )
    (finding,) = found("pinned-actions", read_used, files={**FILES, CI_PATH: content})
    assert finding.level == "ok"


@pytest.mark.parametrize(("runtime", "level"), [("node12", "problem"), ("node20", "problem"), ("node24", "ok"),
                                                ("node28", "ok"), ("docker", "ok")])  # fmt: skip
def test_actions_on_an_old_node(runtime: str, level: str) -> None:
    read = reader({f"owner/tool:action.yml@{SHA}": f"runs: {{using: {runtime}, main: x.js}}"})
    (finding,) = found("action-runtimes", read, files={**FILES, CI_PATH: workflow(f"owner/tool@{SHA}")})
    assert finding.level == level
    assert (f"owner/tool@{SHA}: {runtime}" in finding.text) == (level == "problem")


def test_nested_actions_must_be_allowed_too() -> None:
    read = reader({f"actions/tool:action.yml@{SHA}": composite(f"other/thing@{SHA}")})
    files = {**FILES, CI_PATH: workflow(f"actions/tool@{SHA}")}
    named = AllowedActions(policy="selected", github_owned=True, patterns=("llvm/mlir-release/*", "pypa/*"))
    (finding,) = found("allowed-actions", read, files=files, allowed_actions=named)
    assert finding.text == "not allowed to run: other/thing"


def test_where_no_action_of_others_is_used_nothing_is_said() -> None:
    silent = {"integrate.toml": FILES["integrate.toml"], CI_PATH: workflow("docker://alpine", "./own")}
    assert found("pinned-actions", read_used, files=silent) == []


def test_this_checkout_uses_nothing_by_tag() -> None:
    every = {str(path): path.read_bytes() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    steps = [f"./actions/{path.name}" for path in (ROOT / "actions").iterdir() if path.is_dir()]
    workflows = {path: parse(text, Workflow, where=path) for path, text in {**every, CI_PATH: workflow(*steps)}.items()}
    used = all_uses(workflows, repository="llvm/mlir-release", branch="main", read=read_used)
    assert {use.name for use in used if use.runtime is None} == set()
    assert {step.removeprefix("./") for step in steps} <= {use.path for use in used}
    assert [use.label for use in used if use.is_action and not _COMMIT.fullmatch(use.ref)] == []


@pytest.mark.parametrize("content", [b"[1]", b"runs: {}", b"a: [", b"runs: 3"])
def test_a_file_that_is_no_action(content: bytes) -> None:
    refused(lambda: parse(content, Action, where="action.yml"), "config-invalid")
