from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_release.release.provenance.policy import (
    Signer,
    SignerPolicy,
    Statement,
    Subject,
    check_signer,
    check_statement,
    need_provenance,
)
from tests.refusals import refused

REPOSITORY = "https://github.com/octo/releases"
TAG = "snapshot-20261120.01"
POLICY = SignerPolicy(repository=REPOSITORY, tag=TAG, commit="c" * 40)
SIGNER = Signer(
    issuer="https://token.actions.githubusercontent.com",
    workflow=f"{REPOSITORY}/.github/workflows/attest.yml@refs/heads/main",
    repository=REPOSITORY,
    ref=f"refs/tags/{TAG}",
    commit="c" * 40,
    runner="github-hosted",
)
FILE = Subject(name="a.whl", sha256="a" * 64)
STATEMENT = Statement(predicate_type="https://slsa.dev/provenance/v1", subjects=(FILE,))


def test_a_run_of_the_release_process_is_accepted() -> None:
    check_signer(SIGNER, POLICY)
    check_statement(STATEMENT, FILE, POLICY)


def test_an_enterprise_may_have_an_issuer_of_its_own() -> None:
    check_signer(replace(SIGNER, issuer=f"{SIGNER.issuer}/octo-corp"), POLICY)


def test_what_is_not_known_of_the_release_is_left_to_the_signature() -> None:
    check_signer(replace(SIGNER, commit="e" * 40), replace(POLICY, commit="", tag=""))
    check_signer(SIGNER, replace(POLICY, tag=""))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("it was not signed by a workflow of GitHub", {"issuer": "https://accounts.google.com"}),
        ("it was not signed by a workflow of GitHub", {"issuer": "https://token.actions.githubusercontent.com.example.org"}),
        ("it was not signed by a workflow of GitHub", {"issuer": "https://token.actions.githubusercontent.com/a/b"}),
        ("it was signed for another repository", {"repository": "https://github.com/octo/releases2"}),
        ("it was signed for another repository", {"repository": ""}),
        ("signed by another workflow", {"workflow": f"{REPOSITORY}/.github/workflows/release.yml@refs/heads/main"}),
        ("signed by another workflow", {"workflow": "https://github.com/other/fork/.github/workflows/attest.yml@refs/heads/main"}),
        ("it was signed by another workflow", {"workflow": ""}),
        ("of the protected branch", {"workflow": f"{REPOSITORY}/.github/workflows/attest.yml@refs/tags/{TAG}"}),
        ("of the protected branch", {"workflow": f"{REPOSITORY}/.github/workflows/attest.yml@refs/heads/main2"}),
        ("of the protected branch", {"workflow": f"{REPOSITORY}/.github/workflows/attest.yml"}),
        ("it was not signed on a machine of GitHub's", {"runner": "self-hosted"}),
        ("it was not signed on a machine of GitHub's", {"runner": ""}),
        ("it was signed for another release", {"ref": "refs/tags/snapshot-20261120.02"}),
        ("it was signed for another release", {"ref": f"refs/heads/{TAG}"}),
        ("it was signed for another commit of the tag", {"commit": "d" * 40}),
        ("it was signed for another commit of the tag", {"commit": ""}),
    ],
)  # fmt: skip
def test_each_thing_that_is_wrong_with_the_signer_has_its_own_error(what: str, change: dict[str, str]) -> None:
    refused(lambda: check_signer(replace(SIGNER, **change), POLICY), "signature-invalid", what)


@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/tags/v1", "refs/pull/1/merge", ""])
def test_only_tags_of_releases_are_taken_where_none_is_expected(ref: str) -> None:
    refused(lambda: check_signer(replace(SIGNER, ref=ref), replace(POLICY, tag="")), "signature-invalid")


@pytest.mark.parametrize(
    ("what", "statement"),
    [
        (
            "what was signed is a statement of another kind",
            replace(STATEMENT, predicate_type="https://docs.pypi.org/attestations/publish/v1"),
        ),
        ("what was signed is not about one file", replace(STATEMENT, subjects=(FILE, FILE))),
        ("what was signed is not about one file", replace(STATEMENT, subjects=())),
        ("what was signed is another file", replace(STATEMENT, subjects=(replace(FILE, name="b.whl"),))),
        ("what was signed is another file", replace(STATEMENT, subjects=(replace(FILE, name=""),))),
        (
            "what was signed is another content of the file",
            replace(STATEMENT, subjects=(replace(FILE, sha256="b" * 64),)),
        ),
        ("what was signed is another content of the file", replace(STATEMENT, subjects=(replace(FILE, sha256=""),))),
    ],
)
def test_each_thing_that_is_wrong_with_the_statement_has_its_own_error(what: str, statement: Statement) -> None:
    refused(lambda: check_statement(statement, FILE, POLICY), "signature-invalid", what)


def test_the_llvm_project_commit_is_that_of_the_release_where_the_statement_names_one() -> None:
    policy = replace(POLICY, revision="a" * 40)
    check_statement(STATEMENT, FILE, policy)  # of an older release
    check_statement(replace(STATEMENT, revision="a" * 40), FILE, policy)
    error = refused(lambda: check_statement(replace(STATEMENT, revision="b" * 40), FILE, policy), "signature-invalid")
    assert "b" * 40 in error.why


def test_a_required_release_is_never_accepted_as_none() -> None:
    assert need_provenance(True, "required", where="x")
    assert need_provenance(False, "required", where="x")
    assert not need_provenance(False, "none", where="x")
    refused(lambda: need_provenance(True, "none", where="x"), "provenance-missing")
