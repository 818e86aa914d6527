"""Rules that the workflows keep, which GitHub would enforce only when a job needs them."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from mlir_release.ground.programs.process import LONGEST
from mlir_release.operate.doctor.index import TOOLKIT_PUBLISHER
from mlir_release.operate.doctor.settings import SCHEDULE_VARIABLE
from mlir_release.release.forge.github.client import LONGEST_WAIT
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import BESIDE, MAX_HANDED_OVER, timeout
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.transaction.steps import PUBLISH_ONLY, build_only
from tests.documents import read_yaml
from tools.toolkit_release import INDEXES

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[3] / ".github" / "workflows"
CHAIN = (
    "release.yml", "platform.yml", "attest.yml", "snapshot.yml", "numbered-release.yml", "compiler-caches.yml",
    "pages.yml", "probe.yml", "canary.yml", "conda.yml", "latest.yml", "release-toolkit.yml",
)  # fmt: skip
WORKFLOWS = {name: read_yaml(FOLDER / name) for name in CHAIN}
JOBS = [(f"{name}: {key}", job) for name in CHAIN for key, job in WORKFLOWS[name]["jobs"].items() if "steps" in job]

#: Jobs that run upstream's code, or that of the packages that build it.
FOREIGN = ("sdk", "resume", "wheels", "tests")

#: Minutes for what a job does besides waiting for a rate limit.
ROOM = 20


def uses(job: dict[str, Any], action: str) -> list[dict[str, Any]]:
    """What the steps that use an action pass to it."""
    return [step.get("with", {}) for step in job.get("steps", []) if str(step.get("uses", "")).startswith(action)]


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_a_job_that_asks_github_outlasts_a_wait_for_the_rate_limit(name: str, job: dict[str, Any]) -> None:
    asks = [
        step
        for step in job["steps"]
        if "GITHUB_TOKEN" in step.get("env", {})
        or (str(step.get("uses", "")).startswith("./") and "token" in step.get("with", {}))
    ]
    least = LONGEST_WAIT / 60 + ROOM if asks else 1
    minutes = job["timeout-minutes"]
    assert (timeout(()) if minutes == "${{ fromJSON(matrix.minutes) }}" else minutes) >= least, name


def test_a_step_that_has_a_time_of_its_own_ends_before_its_job_and_what_it_made_is_handed_over() -> None:
    """GitHub ends a job at its limit, and with it all that the job has."""
    found = 0
    for name, job in WORKFLOWS["platform.yml"]["jobs"].items():
        for step in (step for step in job.get("steps", []) if "budget" in step.get("with", {})):
            budget, minutes, found = step["with"]["budget"], job["timeout-minutes"], found + 1
            if minutes == "${{ fromJSON(matrix.minutes) }}":
                assert budget == "${{ matrix.budget }}", name  # tests of matrix_jobs.py compare the two
            else:
                assert int(budget) + BESIDE <= minutes, name
            behind = job["steps"][job["steps"].index(step) + 1 :]
            assert any("always()" in after.get("if", "") for after in behind), name
    assert found == 4
    assert LONGEST <= LONGEST_WAIT  # of any other program: no job is shorter


def test_jobs_with_foreign_code_may_not_write_and_have_no_token() -> None:
    jobs = WORKFLOWS["platform.yml"]["jobs"]
    for name in FOREIGN:  # the plan's matrix orders what they make
        assert jobs[name]["permissions"]["contents"] == "read", name
        assert "github.token" not in str(jobs[name]), name


def test_the_caller_grants_what_the_chain_asks_for_and_no_more() -> None:
    granted = WORKFLOWS["release.yml"]["jobs"]["platform"]["permissions"]
    asked: dict[str, str] = {}
    for job in WORKFLOWS["platform.yml"]["jobs"].values():
        for right, level in job["permissions"].items():
            asked[right] = max(level, asked.get(right, ""))  # write comes after read
    assert granted == asked


def test_wheels_and_reports_are_signed_before_they_are_uploaded() -> None:
    platform, release = WORKFLOWS["platform.yml"]["jobs"], WORKFLOWS["release.yml"]["jobs"]
    assert platform["attest"]["needs"] == ["wheels", "tests"]
    assert platform["upload"]["needs"] == ["wheels", "tests", "attest"]
    assert "needs.attest.result == 'success' || !inputs.attest" in platform["upload"]["if"]
    kinds = [job["with"]["kind"] for job in (platform["attest"], release["attest-manifest"])]
    assert kinds == ["wheels reports", "manifest"]


def test_attest_finds_the_latest_out_itself_and_takes_nothing_from_the_run_that_calls_it() -> None:
    latest, steps = WORKFLOWS["latest.yml"], WORKFLOWS["attest.yml"]["jobs"]["attest"]["steps"]
    assert latest[True] == {"workflow_dispatch": None}  # no inputs
    assert latest["jobs"]["attest"]["with"]["kind"] == "latest"
    mine = [step["name"] for step in steps if "inputs.kind" not in step.get("if", "") or "==" in step["if"]]
    assert mine == ["Check out the toolkit of main", "Set up mlir-release", "Sign the latest", "Upload the bundles"]
    (sign,) = [step for step in steps if step["name"] == "Sign the latest"]
    assert sign["if"] == "${{ inputs.kind == 'latest' }}"
    assert sign["run"] == 'mlir-release release latest --sign "$RUNNER_TEMP/signed"'
    assert sign["env"].keys() == {"GITHUB_TOKEN"}


def test_what_is_published_with_the_signature_is_compared_with_what_was_checked() -> None:
    """The digest comes by an output, which no other job can replace, and not as an artifact."""
    publish, signed = (WORKFLOWS["release.yml"]["jobs"][name] for name in ("publish", "publish-signed"))
    (given,) = uses(signed, "./actions/publish-release")
    assert given["checked"] == "${{ needs.publish.outputs.checked }}"
    assert publish["outputs"]["checked"] == "${{ steps.publish.outputs.checked }}"
    assert signed["needs"] == ["publish", "attest-manifest"]
    assert [given["name"] for given in uses(signed, "actions/download-artifact@")] == ["signed-manifest"]


def test_pages_and_latest_are_dispatched_at_the_end_of_a_release_and_only_there() -> None:
    jobs = WORKFLOWS["release.yml"]["jobs"]
    dispatching = [
        (name, step)
        for name, job in jobs.items()
        for step in job.get("steps", [])
        if "Dispatch" in step.get("name", "")
    ]
    assert [(name, step["name"]) for name, step in dispatching] == [
        ("caches", "Dispatch compiler-caches.yml"),
        ("report", "Dispatch pages.yml"),
        ("report", "Dispatch latest.yml"),
    ]
    pages, latest = (step for name, step in dispatching if name == "report")
    assert pages["if"] == "${{ !cancelled() }}"  # the status is new, whatever became of the release
    assert "tag=$PUBLISHED" in pages["run"]
    published = jobs["report"]["env"]["PUBLISHED"].removeprefix("${{ ").partition(" && github.ref_name || '' }}")[0]
    assert latest["if"] == "${{ !cancelled() && needs.plan.outputs.provenance == 'required' && env.PUBLISHED != '' }}"
    assert published in jobs["pypi-stage"]["if"]
    store = WORKFLOWS["latest.yml"]["jobs"]["store"]
    assert (store["needs"], store["permissions"]) == ("attest", {"contents": "write"})


def test_what_is_only_published_waits_for_no_build() -> None:
    release = WORKFLOWS["release.yml"]
    assert release["concurrency"]["group"] == "${{ inputs.publish-only && 'publish' || 'release' }}-${{ github.ref }}"
    assert "!inputs.publish-only" in release["jobs"]["platform"]["if"]
    inputs = release[True]["workflow_dispatch"]["inputs"]  # YAML 1.1 reads "on" as true
    assert {*PUBLISH_ONLY, *build_only("os=linux")} == inputs.keys()


def test_a_release_job_builds_by_the_named_backend_and_never_by_another() -> None:
    (build,) = uses(WORKFLOWS["platform.yml"]["jobs"]["wheels"], "./actions/build-wheels")
    assert build["backend"] == "${{ vars.MLIR_RELEASE_BACKEND || 'cibuildwheel' }}"
    action = read_yaml(FOLDER.parents[1] / "actions" / "build-wheels" / "action.yml")
    assert action["inputs"]["backend"]["default"] == "cibuildwheel"
    assert "--orders" in action["runs"]["steps"][0]["run"]  # with which the command takes auto for cibuildwheel


def test_a_part_is_chosen_by_a_person_and_publishes_nothing() -> None:
    """The filter reaches every command as a variable: it is text of a person, who may be anybody's dupe."""
    for name in ("release.yml", "snapshot.yml", "numbered-release.yml"):
        given = WORKFLOWS[name][True]["workflow_dispatch"]["inputs"]["only"]
        assert (given["type"], given["default"]) == ("string", "")
        assert "ublishes nothing while another target is missing" in given["description"]
        for job in WORKFLOWS[name]["jobs"].values():
            assert not [step["run"] for step in job.get("steps", []) if "inputs." in step.get("run", "")]
    jobs = WORKFLOWS["release.yml"]["jobs"]
    (plan,) = (step for step in jobs["plan"]["steps"] if step.get("id") == "plan")
    assert plan["env"]["ONLY"] == "${{ inputs.only }}"
    assert '--only "$ONLY"' in plan["run"]
    assert jobs["plan"]["outputs"]["left-out"] == "${{ steps.plan.outputs.left-out }}"
    first = jobs["publish"]["steps"][0]  # before anything that could publish
    assert first["if"] == "${{ needs.plan.outputs.left-out != '0' }}"
    assert first["run"].endswith("exit 1\n")
    (issues,) = (step for step in jobs["report"]["steps"] if step.get("name") == "Update issues")
    assert issues["if"] == "${{ needs.plan.outputs.left-out == '0' }}"
    for name, job in (("snapshot.yml", "snapshot"), ("numbered-release.yml", "number")):
        (bump,) = uses(WORKFLOWS[name]["jobs"][job], "./actions/bump-revision")
        assert bump["only"] == "${{ inputs.only }}"


def test_what_signs_is_mains_whoever_calls_it() -> None:
    (checkout,) = uses(WORKFLOWS["attest.yml"]["jobs"]["attest"], "actions/checkout@")
    assert checkout == {"ref": "main", "persist-credentials": False}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.name)
def test_an_artifact_of_an_earlier_attempt_is_in_nobodys_way_and_files_that_must_be_there_are(path: Path) -> None:
    """GitHub answers 409 to a name that the run has already; that also lasts when failed jobs are run again."""
    for name, job in read_yaml(path)["jobs"].items():
        for upload in uses(job, "actions/upload-artifact@"):
            if path.name == "platform.yml":
                assert upload["overwrite"] is True, name
                optional = upload["name"].startswith(("log-", "compiled-"))
                assert optional or upload["if-no-files-found"] == "error", upload["name"]
            if (path.name, upload["name"]) != ("first-run.yml", "attempt"):  # which asks whether that is so
                assert upload.get("overwrite") is True or "github.run_attempt" in upload["name"], (name, upload["name"])
        for upload in uses(job, "actions/upload-pages-artifact@"):  # it can't overwrite
            assert "github.run_attempt" in upload.get("name", ""), name


def test_the_pages_that_are_deployed_are_those_that_were_generated_last() -> None:
    """Also where the deployment alone is run again: its attempt has another number than that of the artifact."""
    generate, deploy = (WORKFLOWS["pages.yml"]["jobs"][name] for name in ("generate", "deploy"))
    (uploaded,) = uses(generate, "actions/upload-pages-artifact@")
    (deployed,) = uses(deploy, "actions/deploy-pages@")
    assert uploaded["name"] == generate["outputs"]["artifact"]
    assert deployed == {"artifact_name": "${{ needs.generate.outputs.artifact }}"}


def test_each_attempt_saves_a_cache_of_its_own() -> None:
    (save,) = uses(WORKFLOWS["compiler-caches.yml"]["jobs"]["save"], "actions/cache/save@")
    assert "github.run_id" in save["key"]
    assert "github.run_attempt" in save["key"]
    sdk = WORKFLOWS["platform.yml"]["jobs"]["sdk"]
    (restore,) = uses(sdk, "actions/cache/restore@")
    runtime = restore["restore-keys"].replace("sdk-${{ inputs.runtime }}", "${{ matrix.name }}")
    assert save["key"].startswith(runtime)
    (uploaded,) = [u for u in uses(sdk, "actions/upload-artifact@") if u["path"].endswith("/compiler-cache")]
    (taken,) = uses(WORKFLOWS["compiler-caches.yml"]["jobs"]["save"], "actions/download-artifact@")
    assert uploaded["name"].replace("sdk-${{ inputs.runtime }}", "${{ matrix.name }}") == taken["pattern"]
    assert uploaded["path"] == taken["path"] == save["path"] == restore["path"]  # or GitHub would not find the cache


def test_all_compiler_caches_have_room_beside_the_successors_that_a_day_makes() -> None:
    matrix = Matrix.parse((FOLDER.parents[1] / TARGETS_FILE).read_text(encoding="utf-8"))
    most = max(len(matrix.for_tag(SnapshotTag(date(2026, 11, day), 1)).runtimes) for day in range(23, 30))
    (build,) = [step for step in WORKFLOWS["platform.yml"]["jobs"]["sdk"]["steps"] if step.get("id") == "build"]
    sizes = {build["env"][name] for name in ("CCACHE_MAXSIZE", "SCCACHE_CACHE_SIZE")}
    (megabytes,) = (int(size.removesuffix("M")) for size in sizes)
    assert (len(matrix.runtimes) + most) * megabytes <= 10_000  # of a repository


def test_numbered_releases_neither_take_compiled_code_from_snapshots_nor_give_it_to_them() -> None:
    steps = WORKFLOWS["platform.yml"]["jobs"]["sdk"]["steps"]
    (restore,) = [step for step in steps if step.get("uses", "").startswith("actions/cache")]
    assert "startsWith(github.ref_name, 'snapshot-')" in restore["if"]
    assert "startsWith(github.ref_name, 'snapshot-')" in WORKFLOWS["release.yml"]["jobs"]["caches"]["if"]
    jobs = WORKFLOWS["compiler-caches.yml"]["jobs"]
    commands = [step["run"] for step in jobs["plan"]["steps"] if "run" in step]
    assert commands[0].startswith('mlir-release release check-run "$RUN" "$TAG"')  # nothing is taken over before
    assert jobs["save"]["needs"] == "plan"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.name)
def test_what_other_jobs_made_is_unpacked_outside_the_workspace(path: Path) -> None:
    """There it could replace an action of the checkout (``uses: ./…``) or the toolkit, which later steps run."""
    for name, job in read_yaml(path)["jobs"].items():
        steps = job.get("steps", [])
        if not any(str(step.get("uses", "")).startswith(("./", "actions/checkout@")) for step in steps):
            continue  # nothing of a checkout runs there
        for action in ("actions/download-artifact@", "actions/cache/restore@", "actions/cache@"):
            for given in uses(job, action):
                # In a container, the context does not name $RUNNER_TEMP.
                mine = re.sub(r"env\.TEMPORARY\b", "runner.temp", given["path"])
                assert f"{mine}/".startswith("${{ runner.temp }}/"), name
        for command in (step["run"] for step in steps if "run" in step):
            for unpacks in re.findall(r"mlir-release (?:sdk unpack|release fetch).*", command):
                assert '--output "$RUNNER_TEMP/' in unpacks, name
            assert not re.search(r"\b(?:tar|unzip|gh run download)\b", command), name


def test_the_toolkit_is_built_once_tried_and_compared_before_and_after_each_upload() -> None:
    """Each job needs the one before it, so what is wrong on TestPyPI never reaches PyPI, nor a release."""
    workflow = WORKFLOWS["release-toolkit.yml"]
    jobs, project = workflow["jobs"], tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text("utf-8"))
    order = ["build", "try", "testpypi", "testpypi-check", "pypi", "pypi-check", "release"]
    assert list(jobs) == order
    for before, name in itertools.pairwise(order):
        needs = jobs[name]["needs"]
        assert needs == "build" if name == "try" else needs == ["build", before], name
        assert "if" not in jobs[name], name  # nothing goes on after a failure
    repository = project["project"]["urls"]["Source"].removeprefix("https://github.com/")
    assert jobs["build"]["if"] == f"${{{{ github.repository == '{repository}' }}}}"
    assert f"github.com/{repository}/release-toolkit.yml" == TOOLKIT_PUBLISHER
    rights = [(n, right) for n, job in jobs.items() for right, level in job["permissions"].items() if level != "read"]
    assert rights == [("testpypi", "id-token"), ("pypi", "id-token"), ("release", "contents")]
    digests = {"DIGESTS": "${{ needs.build.outputs.digests }}"}
    for name in order[2:]:
        assert any(digests.items() <= step.get("env", {}).items() for step in jobs[name]["steps"]), name
    for name in ("testpypi", "pypi"):
        (upload,) = uses(jobs[name], "pypa/gh-action-pypi-publish@")
        assert jobs[name]["environment"]["name"] == name
        assert upload["attestations"] is upload["skip-existing"] is True
        assert upload.get("repository-url", INDEXES["pypi"]) == INDEXES[name]


#: The jobs that PyPI and TestPyPI trust.
UPLOADS = [(name, key) for name in CHAIN for key, job in WORKFLOWS[name]["jobs"].items() if uses(job, "pypa/")]


#: What another job could do to the files in the meantime.
TAMPER: dict[str, Callable[[Path], object]] = {
    "added": lambda dist: (dist / "more-1-py3-none-any.whl").touch(),
    "hidden": lambda dist: (dist / ".hidden").touch(),
    "folder": lambda dist: (dist / "folder").mkdir(),
    "attestation": lambda dist: (dist / "one-1.tar.gz.publish.attestation").write_text("{}"),
    "changed": lambda dist: (dist / "one-1.tar.gz").write_bytes(b"changed"),
    "missing": lambda dist: (dist / "one-1.tar.gz").unlink(),
    "renamed": lambda dist: (dist / "one-1.tar.gz").rename(dist / "two-1.tar.gz"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the jobs run on Ubuntu")
@pytest.mark.parametrize("tamper", TAMPER)
@pytest.mark.parametrize(("workflow", "job"), UPLOADS)
def test_a_file_that_another_job_replaced_added_or_removed_is_not_uploaded(
    workflow: str, job: str, tamper: str, tmp_path: Path
) -> None:
    """The artifact may have been replaced since; nobody can replace an output of the job that made the files."""
    steps, needs = WORKFLOWS[workflow]["jobs"][job]["steps"], "pypi-stage" if workflow == "release.yml" else "build"
    (at,) = [number for number, step in enumerate(steps) if "pypa/" in str(step.get("uses", ""))]
    compare = steps[at - 1]
    assert compare["env"] == {"DIGESTS": f"${{{{ needs.{needs}.outputs.digests }}}}"}
    assert needs in WORKFLOWS[workflow]["jobs"][job]["needs"]
    dist, lines = tmp_path / "dist", []
    dist.mkdir()
    for name in ("one-1.tar.gz", "one-1-py3-none-any.whl"):
        (dist / name).write_bytes(name.encode())
        lines.append(f"{sha256(name.encode()).hexdigest()}  {name}")

    def compared(digests: str) -> bool:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", compare["run"]]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, "DIGESTS": digests}).returncode == 0

    assert compared("\n".join(lines))
    assert not compared("")
    assert not compared(lines[0])
    TAMPER[tamper](dist)
    assert not compared("\n".join(lines))


@pytest.mark.parametrize(
    ("tag", "admitted"),
    [("v1.0.0", True), ("v1.0.0rc1", True), ("v10.2.33", True), ("v1.0", False), ("v1.0.0.dev1", False),
     ("1.0.0", False), ("v1.0.0-rc1", False), ("snapshot-20261120.01", False), ("llvm-22.1.8.01", False)],
)  # fmt: skip
def test_only_the_toolkits_own_tags_release_it(tag: str, admitted: bool) -> None:
    patterns = WORKFLOWS["release-toolkit.yml"][True]["push"]["tags"]  # YAML 1.1 reads "on" as true
    assert any(re.fullmatch(pattern.replace(".", r"\."), tag) for pattern in patterns) is admitted


def test_a_scheduled_snapshot_never_takes_the_place_of_one_with_a_policy() -> None:
    group = WORKFLOWS["snapshot.yml"]["concurrency"]["group"]
    assert "inputs.policy || github.event_name" in group
    inputs = WORKFLOWS["snapshot.yml"][True]["workflow_dispatch"]["inputs"]
    assert inputs["policy"]["default"]  # so a person's is never empty
    assert WORKFLOWS["snapshot.yml"]["concurrency"]["cancel-in-progress"] is False


def test_each_job_of_a_platform_hands_over_what_it_made_by_an_output_of_its_own() -> None:
    """GitHub keeps one value of a name for all jobs of a matrix, and drops empty ones (actions/runner: FinalizeJob)."""
    platform, release = WORKFLOWS["platform.yml"]["jobs"], WORKFLOWS["release.yml"]["jobs"]
    expected = {
        f"files-{index}": f"${{{{ matrix.index == '{index}' && "
        "format('{0} = {1}', matrix.targets, steps.made.outputs.files) || '' }}"
        for index in range(MAX_HANDED_OVER)
    }
    for made, artifact, action in (("wheels", "wheels-", "build-wheels"), ("tests", "reports-", "test-wheels")):
        assert platform[made]["outputs"] == expected
        (step,) = [step for step in platform[made]["steps"] if step.get("uses") == f"./actions/{action}"]
        assert step["id"] == "made"
        steps = platform[made]["steps"]
        (upload,) = [step for step in steps if step.get("with", {}).get("name", "").startswith(artifact)]
        assert upload["if"] == "${{ always() && steps.made.outputs.files != '' }}"  # nothing that was not handed over
    digests = "${{ format('[{0},{1}]', toJSON(needs.wheels.outputs), toJSON(needs.tests.outputs)) }}"
    assert platform["attest"]["with"]["digests"] == digests
    assert release["attest-manifest"]["with"]["digests"] == "${{ toJSON(needs.publish.outputs) }}"
    assert release["publish"]["outputs"]["manifest"] == "${{ steps.publish.outputs.manifest }}"


#: What jobs of older tags send to workflows of main, and main to those of older tags, for good: an input more that is
#: required, one less, or one that the other side doesn't know ends their runs before they begin.
FROZEN: dict[str, dict[str, bool]] = {
    "attest.yml": {"tag": True, "kind": True, "pattern": True, "digests": False, "output": True},
    "compiler-caches.yml": {"run": True, "tag": True},
    "latest.yml": {},
    "pages.yml": {"tag": False},
}
SENT = {"only", "publish-only"}  #: from main to release.yml of a tag


def inputs_of(name: str) -> dict[str, dict[str, Any]]:
    (trigger,) = WORKFLOWS[name][True].values()  # YAML reads the word on as that
    found: dict[str, dict[str, Any]] = (trigger or {}).get("inputs", {})
    return found


@pytest.mark.parametrize("name", FROZEN)
def test_runs_of_older_tags_still_find_the_workflows_of_main(name: str) -> None:
    inputs, known = inputs_of(name), FROZEN[name]
    assert known.keys() <= inputs.keys()
    for given, described in inputs.items():
        assert described["type"] == "string"
        assert known.get(given, False) or not described.get("required", False), f"older tags do not send {given}"


def test_tags_call_no_other_workflow_of_main_and_main_sends_them_nothing_new() -> None:
    of_tags = [WORKFLOWS[name] for name in ("release.yml", "platform.yml")]
    called = set(
        re.findall(r"/([a-z-]+\.yml)@main|release dispatch ([a-z-]+\.yml)", yaml.safe_dump(of_tags, width=10**6))
    )
    assert {name for pair in called for name in pair if name} == FROZEN.keys()
    assert PUBLISH_ONLY.keys() | build_only("a").keys() == SENT <= inputs_of("release.yml").keys()


def test_what_waits_for_a_reviewer_is_kept_as_long_as_it_may_wait() -> None:
    """GitHub lets a job wait for 30 days; then its run fails (docs.github.com, "Reviewing deployments")."""
    waiting = set()
    for name, workflow in WORKFLOWS.items():
        jobs = workflow["jobs"]
        kept = {given["name"]: given for job in jobs.values() for given in uses(job, "actions/upload-artifact@")}
        for job, content in jobs.items():
            if "environment" in content:
                for given in uses(content, "actions/download-artifact@"):
                    waiting.add((name, job))
                    assert kept[given["name"]]["retention-days"] >= 30, (name, job)
    assert waiting == {("release.yml", "pypi"), ("release-toolkit.yml", "testpypi"), ("release-toolkit.yml", "pypi")}


def test_nightly_jobs_wait_for_a_variable() -> None:
    """A clone that releases has other work for its account's runners."""
    for name, job in read_yaml(FOLDER / "ci.yml")["jobs"].items():
        condition = str(job.get("if", ""))
        if name not in {"slow"} and "'schedule'" in condition and "!= 'schedule'" not in condition:
            assert "vars.MLIR_RELEASE_NIGHTLY == 'on'" in condition, name


def test_a_bad_release_holds_up_no_other_ones_conda_packages() -> None:
    (step,) = [step for step in WORKFLOWS["pages.yml"]["jobs"]["checks"]["steps"] if "conda.yml" in step.get("run", "")]
    script = step["run"].replace("mlir-release", "printf '%s|'")
    done = subprocess.run(
        ["bash", "-c", script], env={"TAGS": "llvm-1.02 snapshot-3.04", "BRANCH": "b"}, capture_output=True, check=True
    )
    assert done.stdout.decode().count("release|dispatch|conda.yml") == 2
    assert 'tags=["llvm-1.02"]|' in done.stdout.decode()


def test_every_scheduled_run_sweeps_also_if_the_bump_fails() -> None:
    assert WORKFLOWS["snapshot.yml"][True]["schedule"]  # YAML 1.1 reads the key "on" as a boolean
    job = WORKFLOWS["snapshot.yml"]["jobs"]["sweep"]
    assert (job["needs"], job["if"]) == ("snapshot", "${{ !cancelled() && needs.snapshot.result != 'skipped' }}")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["mlir-release release sweep"]


def test_the_schedule_does_nothing_until_the_variable_is_set() -> None:
    condition = WORKFLOWS["snapshot.yml"]["jobs"]["snapshot"]["if"]
    assert condition == f"${{{{ github.event_name != 'schedule' || vars.{SCHEDULE_VARIABLE} == 'on' }}}}"


def test_the_sweep_runs_no_foreign_code_with_its_rights() -> None:
    job = WORKFLOWS["snapshot.yml"]["jobs"]["sweep"]
    assert WORKFLOWS["snapshot.yml"]["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "actions": "write"}
    used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "./actions/setup"]
    assert job["steps"][0]["with"] == {"persist-credentials": False}
