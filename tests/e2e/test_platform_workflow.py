"""The chain of a platform, platform.yml, run by act as release.yml calls it, with a stand-in for the toolkit."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from mlir_release.release.forge.checkout import starter
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from tests.documents import read_yaml
from tests.github_server import GitHubServer
from tests.workflows.rehearse import REPOSITORY, ROOT, RUNNER, Runner, for_act

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

WORKFLOWS = ".github/workflows/"
ACTIONS = ("build-sdk", "build-wheels", "test-wheels", "publish-release")

#: Instead of mlir-release. SDKs: ``slow`` runs out of time once, and is not finished before the tests of ``quick`` are;
#: ``endless`` runs out of time twice a run; ``broken`` fails. The wheel ``bad`` can't be built.
TOOLKIT = """\
#!/usr/bin/env python3
import json, os, sys, time
from pathlib import Path

words = sys.argv[1:]
artifacts, cache = Path(os.environ["ARTIFACTS"]), Path(os.environ.get("SCCACHE_DIR", ""))
with open(os.environ["COMMANDS"], "a") as file:
    file.write(" ".join(words) + "\\n")


def option(name):
    return words[words.index(name) + 1]


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def hand_over(names):
    with open(os.environ["GITHUB_OUTPUT"], "a") as file:
        file.write("files=" + " ".join(f"{'0' * 64} {name}" for name in names) + "\\n")


temp = Path(os.environ["RUNNER_TEMP"])
if words[:2] == ["sdk", "provide"]:
    assert not os.environ.get("GITHUB_TOKEN")
    runtime = json.loads(option("--order"))["runtime"]
    before = (cache / "jobs").read_text() if (cache / "jobs").exists() else ""
    write(cache / "jobs", before + f"{runtime} {option('--budget')}\\n")
    write(os.environ["MLIR_RELEASE_LOGS"] + "/build.log", "all of it")
    if runtime == "broken":
        sys.exit("it is broken")
    if runtime == "slow":
        end = time.monotonic() + 600
        while not (artifacts / "reports-0-quick").exists():
            if time.monotonic() > end:
                sys.exit("it waits for itself")
            time.sleep(0.5)
    jobs = before.count("\\n") + 1
    finished = jobs > {"slow": 1, "endless": 2}.get(runtime, 0)
    if finished:
        write("sdk/sdk.json", runtime)
    with open(os.environ["GITHUB_OUTPUT"], "a") as file:
        file.write(f"finished={str(finished).lower()}\\n")
elif words[:2] == ["sdk", "pack"]:
    for name in ("sdk.json", "build.tar.zst", "tools.tar.zst"):
        write(f"packed/{name}", Path("sdk/sdk.json").read_text())
elif words[:2] == ["sdk", "unpack"]:
    assert Path(words[2]) == temp / "packed"
    for path in Path(words[2]).iterdir():
        write(f"{option('--output')}/{path.name}", path.read_text())
elif words[:2] == ["release", "fetch"]:
    assert os.environ["GITHUB_TOKEN"]
    for target in words[3:words.index("--output")]:
        write(f"{option('--output')}/{target}/{target}.whl", "from the draft")
elif words[:2] == ["wheels", "build"]:
    sdk = Path(option("--sdk"))
    assert (sdk / "build.tar.zst").exists() and not (sdk / "tools.tar.zst").exists()
    write(os.environ["MLIR_RELEASE_LOGS"] + "/build.log", "all of it")
    assert not os.environ.get("GITHUB_TOKEN")
    targets = [order["target"] for order in json.loads(option("--orders"))]
    good = [target for target in targets if not target.startswith("bad")]
    for target in good:
        write(f"{option('--output')}/{target}/{target}.whl", "built")
    hand_over(f"{target}.whl" for target in good)
    if good != targets:
        sys.exit("it can not be built")
elif words[:2] == ["wheels", "test"]:
    assert not os.environ.get("GITHUB_TOKEN")
    orders, failed = json.loads(option("--orders")), False
    tested = []
    for order in orders:
        wheels = list((Path(option("--dist")) / order["wheel"]).glob("*.whl")) if order["wheel"] else []
        if order["wheel"] and not wheels:
            failed = True
            continue
        text = wheels[0].read_text() if wheels else "no wheel"
        write(f"{option('--reports')}/{order['name']}.tests.json", text)
        tested.append(f"{order['name']}.tests.json")
    hand_over(tested)
    if failed:
        sys.exit("a wheel is not there")
elif words[0] == "attest":
    ends = {"wheels": ".whl", "reports": ".tests.json", "manifest": "release.json"}
    kinds = tuple(ends[words[number + 1]] for number, word in enumerate(words) if word == "--kind")
    said = json.loads(option("--handed-over"))  # act loses outputs of jobs of a matrix: only their form is looked at
    outputs = [value for group in (said if isinstance(said, list) else [said]) for value in group.values()]
    handed_over = [value.partition(" = ")[2].split() for value in outputs if " = " in value]
    assert any(handed_over), said
    assert all(len(words) % 2 == 0 for words in handed_over), said
    for path in Path(words[2]).rglob("*"):
        if path.name.endswith(kinds):
            write(f"{option('--output')}/{path.name}.sigstore.json", f"{words[1]} signed by the toolkit of WHOSE")
elif words[:2] == ["release", "dispatch"]:
    with open(artifacts / "dispatched", "a") as file:
        file.write(f"{words[2]}\\n")
elif words[0] == "publish" and "--upload-only" not in words:
    names = sorted(path.name for path in Path(option("--dist")).rglob("*") if path.is_file())
    with open(os.environ["COMMANDS"], "a") as file:
        file.write(f"publishing with {' '.join(names)}\\n")
    if "release.json.sigstore.json" in names:
        write(artifacts / "published", option("--checked"))
    else:
        write(f"{option('--manifest-to')}/release.json", "{}")
        with open(os.environ["GITHUB_OUTPUT"], "a") as file:
            file.write(f"attest=true\\nmanifest=manifest = {'0' * 64} release.json\\nchecked=what was checked\\n")
elif words[0] == "publish":
    wheels = sorted(path.name for path in Path(option("--dist")).rglob("*.whl"))
    if wheels:
        write(artifacts / "draft" / wheels[0], " ".join(wheels))
    for path in Path(option("--dist")).rglob("*.tests.json"):
        write(artifacts / "draft" / path.name, path.read_text())
    for path in Path(option("--dist")).rglob("*.sigstore.json"):
        write(artifacts / "draft" / path.name, path.read_text())
else:
    sys.exit(f"unknown: {words}")
"""

SETUP = """\
name: Set up mlir-release
description: Puts the stand-in on the path.
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        mkdir -p "$RUNNER_TEMP/bin"
        cp actions/setup/mlir-release "$RUNNER_TEMP/bin"
        chmod +x "$RUNNER_TEMP/bin/mlir-release"
        echo "$RUNNER_TEMP/bin" >> "$GITHUB_PATH"
"""


def platform(runtime: str, *, wheels: tuple[str, ...] = (), fetch: tuple[str, ...] = ()) -> dict[str, str]:
    """A row of the matrix: these wheels are built, each job one, those are in the draft, and all of them are tested.

    The tests are two jobs: what tests wheels, and what needs none.
    """
    jobs = {"versions": "3.12\n3.13", "minutes": "120", "budget": "60", "tools": "false", "sdk": "true"}
    built = [
        jobs
        | {
            "index": str(index),
            "name": f"{runtime} ({name})",
            "targets": f"{name}-{runtime}-cp312",
            "orders": json.dumps([{"target": f"{name}-{runtime}-cp312"}]),
        }
        for index, name in enumerate(wheels)
    ]
    orders = [
        {"name": f"smoke-{name}", "suite": "smoke", "python": "cp312", "wheel": f"{name}-{runtime}-cp312"}
        for name in (*wheels, *fetch)
    ]
    regression = {"name": f"regression-{runtime}", "suite": "regression", "python": "", "wheel": ""}
    tests = [
        jobs
        | {
            "index": str(index),
            "name": name,
            "targets": " ".join(order["name"] for order in group),
            "orders": json.dumps(group),
            "wheel": str(name == runtime).lower(),
        }
        for index, (name, group) in enumerate([(runtime, orders), (f"{runtime} (experimental)", [regression])])
        if group
    ]
    return {
        "runtime": runtime,
        "runner": RUNNER,
        "order": json.dumps({"runtime": runtime}),
        "wheels": json.dumps({"include": built}) if built else "",
        "tests": json.dumps({"include": tests}),
        "fetch": " ".join(f"{name}-{runtime}-cp312" for name in fetch),
    }


def caller(*rows: dict[str, str], provenance: str = "none") -> str:
    """A workflow with the job of release.yml that calls platform.yml, and one as the one that publishes."""
    jobs = read_yaml(ROOT / WORKFLOWS / "release.yml")["jobs"]
    plan: dict[str, Any] = {
        "runs-on": RUNNER,
        "outputs": {
            "complete": "false",
            "platforms": "${{ steps.plan.outputs.matrix }}",
            "provenance": provenance,
        },
        "steps": [
            {
                "id": "plan",
                "env": {"MATRIX": json.dumps({"include": rows})},
                "run": 'echo "matrix=$MATRIX" >> "$GITHUB_OUTPUT"',
            }
        ],
    }
    publish = {key: jobs["publish"][key] for key in ("needs", "if", "runs-on")}
    publish["steps"] = [{"run": 'touch "$ARTIFACTS/published"'}]
    chain = {"platform": jobs["platform"]}
    if provenance == "required":
        chain |= {name: jobs[name] for name in ("publish", "attest-manifest", "publish-signed")}
    else:
        chain |= {"publish": publish}
    jobs = {"plan": plan, **chain}
    return yaml.safe_dump({"name": "Caller", "on": {"workflow_dispatch": {}}, "jobs": jobs})


def run(
    workspace: Path, *rows: dict[str, str], attempts: int = 1, provenance: str = "none", tag: str = "", full: int = 0
) -> tuple[bool, str, Path]:
    """Whether the workflow succeeded (at last), what act printed, and the folder of the artifacts.

    :param full: the attempt whose artifacts find no room
    :param tag: run on this tag instead of main, whose toolkit and attest.yml are others than main's
    """
    files = {
        WORKFLOWS + "caller.yml": caller(*rows, provenance=provenance).encode(),
        **{WORKFLOWS + name: (ROOT / WORKFLOWS / name).read_bytes() for name in ("platform.yml", "attest.yml")},
        "actions/setup/action.yml": SETUP.encode(),
        "actions/setup/mlir-release": TOOLKIT.replace("WHOSE", "main").encode(),
        **{path: (ROOT / path).read_bytes() for name in ACTIONS for path in [f"actions/{name}/action.yml"]},
    }
    artifacts = workspace / "artifacts"
    with GitHubServer(workspace / "github") as github:
        origin = github.add_repository(REPOSITORY, for_act(files), workflows=("caller.yml",))
        if tag:
            push_tag(origin, workspace / "pusher", tag)
        runner = Runner(github, workspace, github.token())
        runner.variables = {"COMMANDS": str(workspace / "commands"), "ARTIFACTS": str(artifacts)}
        for attempt in range(1, attempts + 1):
            runner.variables |= {"GITHUB_RUN_ATTEMPT": str(attempt), "QUOTA_IS_FULL": "1" if attempt == full else ""}
            success = runner.run("caller.yml", tag or "main", {})
    return success, (workspace / f"run-{attempts}-caller.yml.log").read_text(), artifacts


def push_tag(origin: Path, checkout: Path, tag: str) -> None:
    """A tag that someone who may push has prepared: with a toolkit and a signing workflow of their own."""
    subprocess.run(["git", "clone", "-q", str(origin), str(checkout)], check=True)
    (checkout / "actions" / "setup" / "mlir-release").write_text(TOOLKIT.replace("WHOSE", "the tag"))
    signer = checkout / WORKFLOWS / "attest.yml"
    signer.write_text(signer.read_text().replace("ref: main", f"ref: {tag}"))
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@y"]
    for command in (["commit", "-qam", "Change the toolkit"], ["tag", tag], ["push", "-q", "origin", tag]):
        subprocess.run([*git, *command], check=True)


def parts_of(runtime: str) -> set[str]:
    """The artifacts that later jobs take the SDK from."""
    return {f"sdk-{part}-{runtime}" for part in ("description", "build", "tools")}


def ended(log: str) -> set[tuple[str, str]]:
    """The jobs that ran, and how they ended. act numbers the jobs of a matrix, which GitHub does not."""
    found = re.findall(r"^\[(.+?)\s*\] 🏁  Job (\w+)", log, re.MULTILINE)
    return {(re.sub(r"-\d+(?=/|$)", "", job).replace("/Platform/", " / "), end) for job, end in found}


def publications(workspace: Path) -> list[list[str]]:
    """The files that each attempt to publish had."""
    lines = (workspace / "commands").read_text().splitlines()
    return [line.split()[2:] for line in lines if line.startswith("publishing with ")]


def reports_of(bundles: Iterable[str]) -> set[str]:
    """The reports that bundles are of."""
    return {name.removesuffix(".sigstore.json") for name in bundles}


def test_each_platform_goes_its_own_way_and_resumes_what_ran_out_of_time(tmp_path: Path) -> None:
    """The SDK of ``slow`` is finished only after the tests of ``quick``: nothing of ``quick`` waits for it."""
    rows = platform("slow", wheels=("late",)), platform("quick", wheels=("quick",), fetch=("old",))
    success, log, artifacts = run(tmp_path, *rows)
    assert success, log
    chain = {
        "slow": ["sdk: slow", "sdk: slow (resumed)", "wheels: slow (late)"],
        "quick": ["sdk: quick", "wheels: quick (quick)", "wheels: fetch from draft (quick)"],
    }
    for name, jobs in chain.items():
        jobs += [f"tests: {name}", f"tests: {name} (experimental)"]
        jobs += [f"publish: upload wheels and test reports ({name})"]
    assert ended(log) == {
        ("Caller/plan", "succeeded"),
        *((f"{name} / {job}", "succeeded") for name, jobs in chain.items() for job in jobs),
        ("Caller/publish", "succeeded"),
    }
    assert {path.name for path in artifacts.iterdir()} == {
        *(name for runtime in chain for name in (*parts_of(runtime), f"compiled-sdk-{runtime}", f"log-sdk-{runtime}")),
        "wheels-0-slow", "wheels-0-quick", "draft-quick", "draft", "published",
        *(f"reports-{number}-{runtime}" for number in (0, 1) for runtime in chain),
    }  # fmt: skip
    reports = {path.name.partition(".")[0]: path.read_text() for path in artifacts.glob("reports-*/*.tests.json")}
    assert reports == {
        "smoke-quick": "built",
        "smoke-late": "built",
        "smoke-old": "from the draft",
        "regression-slow": "no wheel",
        "regression-quick": "no wheel",
    }
    uploaded = {path.name for path in (artifacts / "draft").iterdir()}
    # Each platform its own; not what came from the draft.
    assert uploaded == {"late-slow-cp312.whl", "quick-quick-cp312.whl", *(f"{name}.tests.json" for name in reports)}
    assert (artifacts / "compiled-sdk-slow" / "jobs").read_text() == "slow 290\n" * 2


def test_what_fails_ends_its_chain_only(tmp_path: Path) -> None:
    rows = platform("broken", wheels=("a",)), platform("other", wheels=("bad",), fetch=("old",))
    success, log, artifacts = run(tmp_path, *rows)
    assert not success
    jobs = ended(log)
    assert {(job, end) for job, end in jobs if "/ tests: " not in job} == {
        ("Caller/plan", "succeeded"),
        ("broken / sdk: broken", "failed"),
        ("other / sdk: other", "succeeded"),
        ("other / wheels: other (bad)", "failed"),
        ("other / wheels: fetch from draft (other)", "succeeded"),
        ("other / publish: upload wheels and test reports (other)", "succeeded"),
        ("Caller/publish", "succeeded"),
    }
    # act calls all jobs of a matrix failed once one has; the reports tell.
    assert {job for job, _ in jobs if "/ tests: " in job} == {
        f"other / tests: other{words}" for words in ("", " (experimental)")
    }
    reports = {
        f"{name}.tests.json" for name in ("smoke-old", "regression-other")
    }  # the first of a job whose other failed
    assert {path.name for path in artifacts.glob("reports-*/*.json")} == reports
    assert (artifacts / "log-sdk-broken" / "build.log").read_text() == "all of it"
    assert (artifacts / "log-wheels-0-other" / "build.log").read_text() == "all of it"
    assert (artifacts / "compiled-sdk-broken" / "jobs").read_text() == "broken 290\n"  # the next run continues from it
    uploads = [line for line in (tmp_path / "commands").read_text().splitlines() if line.startswith("publish")]
    assert len(uploads) == 1
    assert {path.name for path in (artifacts / "draft").iterdir()} == reports


def test_each_attempt_continues_where_the_last_one_ended(tmp_path: Path) -> None:
    row = platform("endless", fetch=("old",))
    success, log, artifacts = run(tmp_path / "one", row)
    assert not success
    assert ("endless / sdk: endless (resumed)", "failed") in ended(log)
    assert not [job for job, _ in ended(log) if job.startswith("endless / tests")]
    assert "re-run the failed jobs of this run" in log
    assert (artifacts / "compiled-sdk-endless" / "jobs").read_text() == "endless 290\n" * 2
    success, log, artifacts = run(tmp_path / "two", row, attempts=2)
    assert success, log
    assert ("endless / sdk: endless", "succeeded") in ended(log)
    assert ("endless / sdk: endless (resumed)", "succeeded") not in ended(log)
    assert (artifacts / "compiled-sdk-endless" / "jobs").read_text() == "endless 290\n" * 3


def test_a_full_quota_of_artifacts_fails_the_run_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    row = platform("quick", fetch=("old",))
    success, log, artifacts = run(tmp_path / "one", row, full=1)
    assert not success
    assert ("quick / sdk: quick", "failed") in ended(log)
    assert "Artifact storage quota has been hit" in log
    assert not (artifacts / "draft").exists()
    success, log, artifacts = run(tmp_path / "two", row, attempts=2, full=1)
    assert success, log
    assert parts_of("quick") <= {path.name for path in artifacts.iterdir()}


def test_wheels_and_reports_are_signed_by_the_toolkit_of_main_whatever_the_tag_has(tmp_path: Path) -> None:
    tag = "snapshot-20261122.01"
    success, log, artifacts = run(
        tmp_path, platform("quick", wheels=("quick",), fetch=("old",)), provenance="required", tag=tag
    )
    assert success, log
    jobs = {job for job, end in ended(log) if end == "succeeded"}
    attested = {job.rpartition("/")[2] for job in jobs if "/Attest/" in job}
    assert attested == {f"publish: attest signed-{what}" for what in ("quick", "manifest")}
    signed = {path.name: path.read_text() for path in (artifacts / "draft").glob("*.whl.sigstore.json")}
    assert signed == {"quick-quick-cp312.whl.sigstore.json": f"{tag} signed by the toolkit of main"}
    reports = {path.name: path.read_text() for path in (artifacts / "signed-quick").glob("*.tests.json.sigstore.json")}
    assert reports == {path.name: path.read_text() for path in (artifacts / "draft").glob("*.tests.json.sigstore.json")}
    assert {name.partition(".")[0] for name in reports} == {"smoke-quick", "smoke-old", "regression-quick"}
    assert set(reports.values()) == {f"{tag} signed by the toolkit of main"}
    assert not list((artifacts / "signed-quick").glob("old*"))  # the draft's were signed when they were built
    # Publication stops at the manifest; once that is signed, its bundle and what was checked are all that is needed.
    first, second = (set(names) for names in publications(tmp_path))
    handed_over = {f"{name}{end}" for name in reports_of(reports) for end in ("", ".sigstore.json")}
    assert first == handed_over | signed.keys()
    assert second == {"release.json.sigstore.json"}
    assert (artifacts / "signed-manifest" / "release.json.sigstore.json").read_text().endswith("toolkit of main")
    assert (artifacts / "published").read_text() == "what was checked"


def test_nothing_is_uploaded_if_it_can_not_be_signed(tmp_path: Path) -> None:
    rows = platform("quick", wheels=("quick",)), platform("other", wheels=("bad",))
    for attempt in "123":  # act, not GitHub, may end before the other platform's last jobs when one has failed
        success, _, artifacts = run(tmp_path / attempt, *rows, provenance="required")
        assert not success
        assert not list((artifacts / "draft").glob("bad*"))
        if (artifacts / "draft" / "quick-quick-cp312.whl.sigstore.json").exists():
            return
    raise AssertionError("the other platform's wheel is not uploaded")


@pytest.mark.slow
@pytest.mark.parametrize("platforms", [("linux-x86_64",), ()], ids=["starter", "whole"])
def test_the_chains_of_the_shipped_matrix(platforms: tuple[str, ...], tmp_path: Path) -> None:
    """All jobs of all platforms on a Thursday, which has the most of them; each is on this machine."""
    text = (ROOT / TARGETS_FILE).read_text(encoding="utf-8")
    matrix = Matrix.parse(starter(text, platforms) if platforms else text)
    rows = [
        row | {"runner": RUNNER, "order": json.dumps({"runtime": row["runtime"]})}
        for row in job_rows(matrix.for_tag(SnapshotTag(date(2026, 11, 26), 1)), "platforms")
    ]
    assert len(rows) == (1 if platforms else 10)
    success, log, artifacts = run(tmp_path, *rows)
    assert success, log
    jobs = [json.loads(row[kind])["include"] for row in rows for kind in ("wheels", "tests")]
    wheels, reports = (
        {target for group in groups for job in group for target in job["targets"].split()}
        for groups in (jobs[::2], jobs[1::2])
    )
    uploaded = [path.read_text() for path in (artifacts / "draft").glob("*.whl")]
    assert {name for text in uploaded for name in text.split()} == {f"{wheel}.whl" for wheel in wheels}
    assert {path.name for path in (artifacts / "draft").glob("*.tests.json")} == {f"{r}.tests.json" for r in reports}
    assert (artifacts / "published").exists()
