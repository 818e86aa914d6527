"""S8: of a run's artifacts, attest.yml signs what the tag's matrix makes, and what the job that made it handed over."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.release.provenance.policy import SignerPolicy
from mlir_release.release.provenance.verify import verify_file
from mlir_release.release.transaction.attest import attest_release, read_handed_over
from tests.refusals import refused
from tests.release.integration.signed_stage import REPORT, REPOSITORY, TAG, VERSION, SignedStage, signed_stage
from tests.sigstore.services import CERTIFICATES, ENTRIES, Services, serve_sigstore
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.release.provenance.sign import Attested

TARGET = f"mlir-linux-x86_64-{PYTHON}"
MANYLINUX = "manylinux_2_28_x86_64"
OURS = f"mlir-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}.whl"


class Run:
    """A run on the tag, whose jobs have left artifacts, and what attest.yml does with them."""

    def __init__(self, stage: SignedStage, services: Services, folder: Path) -> None:
        self.stage = stage
        self.services = services
        self.files, self.out = folder / "artifacts", folder / "signed"
        self.files.mkdir()
        make_wheel(self.files, tag=TAG, version=VERSION, python=PYTHON)

    def add(self, name: str, content: bytes = b"not ours") -> None:
        (self.files / name).write_bytes(content)

    def output(self, name: str = OURS, target: str = TARGET) -> str:
        """What a job hands over, of a file and with its targets."""
        return f"{target} = {self.file(name)}"

    def file(self, name: str = OURS) -> str:
        """A file, as a job says it."""
        return f"{sha256((self.files / name).read_bytes()).hexdigest()} {name}"

    def attest(self, kind: str = "wheels", handed_over: Any = None) -> Attested:
        text = None if handed_over is None else json.dumps(handed_over)
        return attest_release(
            self.stage.forge, TAG, self.files, self.out, kinds=[kind], branch="main", handed_over=text
        )

    def signs_nothing(self, kind: str = "wheels", handed_over: Any = None, *, said: str = "") -> None:
        refused(lambda: self.attest(kind, handed_over), "tampered", said)
        # A signature in the log could be made a bundle of, by whoever started the run.
        assert not {CERTIFICATES, ENTRIES} & set(self.services.requests)
        assert not self.out.exists()
        assert not self.stage.server.repositories[REPOSITORY].attestations


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with (
        signed_stage(tmp_path, monkeypatch) as stage,
        serve_sigstore(tmp_path / "sigstore", made=stage.made) as services,
    ):
        identity = services.environment(tag=TAG, repository=REPOSITORY, commit=stage.commit, server=stage.server.url)
        for name, value in (identity | stage.server.environment(REPOSITORY, stage.token)).items():
            monkeypatch.setenv(name, value)
        yield Run(stage, services, tmp_path)


FOREIGN = [
    "pip-99.0-py3-none-any.whl",
    f"mlir-20991231.1-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",  # another version
    f"mlir-{VERSION}.post1-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",
    f"mlir_core-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",  # a distribution that the matrix has not
    f"mlir-{VERSION}-{OTHER_PYTHON}-{OTHER_PYTHON}-{MANYLINUX}.whl",  # a CPython that it has not
    f"mlir-{VERSION}-{PYTHON}-abi3-{MANYLINUX}.whl",
    f"mlir-{VERSION}-{PYTHON}-none-{MANYLINUX}.whl",
    f"mlir-{VERSION}-1-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",  # a build number
    f"mlir-{VERSION}-{PYTHON}-{PYTHON}-win_amd64.whl",
    f"mlir-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}.win_amd64.whl",  # for another platform, too
    f"mlir-{VERSION}-{PYTHON}.py3-{PYTHON}.none-{MANYLINUX}.any.whl",
    f"MLIR-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",
    f"..\\mlir-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}.whl",  # a path, on Windows
    f"mlir-{VERSION}-{PYTHON}-{PYTHON}-{MANYLINUX}\n.whl",
    f"source-mlir-{VERSION}.tar.gz",  # the matrix makes no source distribution
    "pip-99.0.tar.gz",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_what_no_target_makes_ends_the_run_before_anything_is_signed(run: Run, name: str) -> None:
    run.add(name)
    run.signs_nothing(said=name)


@pytest.mark.parametrize("name", ["smoke-pip-linux-x86_64.tests.json", f"bindings-{TARGET}.tests.json", ".tests.json"])
def test_a_report_of_no_target_is_not_signed(run: Run, name: str) -> None:
    run.add(name, b"{}")
    run.signs_nothing("reports")


def test_names_of_the_matrix_are_signed(run: Run) -> None:
    run.add(REPORT, b"{}")
    assert run.attest().signed == (OURS,)
    assert run.attest("reports").signed == (REPORT,)


# -- digests ----------------------------------------------------------------------------------------------------------


def test_a_file_that_another_job_replaced_is_not_signed(run: Run) -> None:
    handed_over = {"files-0": run.output()}
    run.add(OURS, b"of another job of the run")
    run.signs_nothing(handed_over=handed_over, said=OURS)


def test_a_second_file_of_one_target_is_not_signed(run: Run) -> None:
    run.add(f"mlir-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_17_x86_64.whl")
    run.signs_nothing(handed_over={"files-0": run.output()})


def test_a_manifest_that_another_job_replaced_is_not_signed(run: Run) -> None:
    run.add("release.json", b"{}")
    handed_over = {"attest": "true", "manifest": run.output("release.json", "manifest")}
    run.add("release.json", b"{ }")
    run.signs_nothing("manifest", handed_over)


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"{TARGET} = ",
        "true",
        f"{TARGET} = {'0' * 64}",
        f"{TARGET} = {'0' * 64} {OURS}; {TARGET} = x {OURS}",
        TARGET,
    ],
)
def test_what_nobody_handed_over_is_left_alone(run: Run, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = run.attest(handed_over={"files-0": value})
    assert (done.signed, done.kept) == ((), ())
    assert f"{OURS} is not signed" in capsys.readouterr().err
    assert not run.out.exists()


@pytest.mark.parametrize("targets", ["another-target", f"smoke-{TARGET}", f"{TARGET}-abi3 mlir-linux-x86_64"])
def test_a_job_hands_over_files_of_its_own_targets_only(run: Run, targets: str) -> None:
    """The workflow writes the targets; what follows is the job's own, and could say anything."""
    run.signs_nothing(handed_over={"files-1": run.output(target=targets)})
    forged = {"files-1": f"{targets} = {'0' * 64} x.whl {TARGET} = {run.file()}"}
    assert read_handed_over(json.dumps(forged)) == []


def test_a_job_of_tests_hands_over_no_wheel(run: Run) -> None:
    tests = {"files-0": run.output(target=f"smoke-{TARGET} bindings-{TARGET}")}
    run.signs_nothing(handed_over=[{}, tests])
    run.signs_nothing(handed_over=[{"files-0": run.output()}, tests])


def test_what_was_handed_over_is_signed(run: Run) -> None:
    run.add(REPORT, b"{}")
    wheels = {"files-0": run.output(target=f"another-target {TARGET}"), "files-1": "a-target-that-failed = "}
    assert run.attest(handed_over=wheels).signed == (OURS,)
    tests = {"files-0": f"{REPORT.removesuffix('.tests.json')} = {run.file(REPORT)}"}
    assert run.attest("reports", [wheels, None, tests]).signed == (REPORT,)


def test_files_of_one_job_are_signed_one_by_one(run: Run) -> None:
    """What a job says of one of its targets says nothing of another's file."""
    run.add(REPORT, b"{}")
    targets = f"{TARGET} {REPORT.removesuffix('.tests.json')}"
    handed_over = {"files-0": f"{targets} = {run.file()} {run.file(REPORT)}"}
    run.add(REPORT, b"{ }")
    run.signs_nothing("reports", handed_over, said=REPORT)
    assert run.attest("wheels", handed_over).signed == (OURS,)


@pytest.mark.parametrize("text", ["", "[]", "null", "[1]", "[{}, [1]]", "{", "[" * 10_000])
def test_outputs_that_are_none_are_an_error_of_its_own(text: str) -> None:
    refused(lambda: read_handed_over(text), "option-invalid")


# -- what is said of the revision -------------------------------------------------------------------------------------


def test_the_llvm_project_commit_is_signed_and_checked(run: Run) -> None:
    run.attest()
    bundle = (run.out / f"{OURS}.sigstore.json").read_bytes()
    statement = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
    _, source = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    uri = f"git+https://example.org/llvm-project@{REVISION}"
    assert source == {"name": "llvm-project", "uri": uri, "digest": {"gitCommit": REVISION}}
    policy = SignerPolicy(repository=run.stage.url, tag=TAG, commit=run.stage.commit, revision=REVISION)
    wheel, trust = run.files / OURS, run.services.made.trust()
    assert verify_file(wheel, bundle, policy, trust).revision == REVISION
    other = SignerPolicy(repository=run.stage.url, tag=TAG, commit=run.stage.commit, revision="f" * 40)
    refused(lambda: verify_file(wheel, bundle, other, trust), "signature-invalid", "llvm-project")
