from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_release.errors import ReleaseError, UsageError
from mlir_release.model.pin import (
    PIN_FILE,
    PinFacts,
    TreeEntry,
    changed_names,
    check_pin_commit,
    format_pin,
    parse_pin,
)

SHA = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


@pytest.mark.parametrize(
    ("content", "identifier"),
    [
        (None, "pin-missing"),
        (b"", "pin-empty"),
        (b"ca7933e47d3a\n", "pin-short"),
        (b"main\n", "pin-junk"),
        (SHA.upper().encode(), "pin-junk"),
        (f"{SHA}\n{SHA}\n".encode(), "pin-junk"),
        (b"\xff\xfe\x00" * 100, "pin-junk"),
    ],
)
def test_bad_pins(content: bytes | None, identifier: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pin(content, where="a file")
    assert caught.value.id == identifier
    assert caught.value.remedy


BASE = "a" * 40
BEFORE = "c" * 40
PLAIN_FILE = TreeEntry(name=PIN_FILE, mode="100644", kind="blob", oid="1" * 40)
FACTS = PinFacts(
    commit="d" * 40,
    parents=(BEFORE, BASE),
    branch="main",
    base_on_branch=True,
    changed=(PIN_FILE,),
    entry=PLAIN_FILE,
    pin=format_pin(SHA),
)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, parents=(BASE,)),
        replace(FACTS, changed=()),  # the base pins the same
        replace(FACTS, pin=SHA.encode()),
    ],
)
def test_a_pin_commit(facts: PinFacts) -> None:
    assert facts.base == BASE
    check_pin_commit(facts, SHA, where="a tag")


@pytest.mark.parametrize(
    ("facts", "identifier"),
    [
        (replace(FACTS, parents=()), "pin-commit-parents"),
        (replace(FACTS, parents=("e" * 40, BEFORE, BASE)), "pin-commit-parents"),
        (replace(FACTS, parents=(BASE, BASE)), "pin-commit-parents"),
        (replace(FACTS, base_on_branch=False), "pin-base-unprotected"),
        (replace(FACTS, changed=(".github", PIN_FILE)), "pin-commit-changes-more"),
        (replace(FACTS, changed=("targets.toml",)), "pin-commit-changes-more"),
        (replace(FACTS, entry=replace(PLAIN_FILE, mode="120000"), pin=None), "pin-file-not-plain"),
        (replace(FACTS, entry=replace(PLAIN_FILE, mode="160000", kind="commit"), pin=None), "pin-file-not-plain"),
        (replace(FACTS, entry=None, pin=None), "pin-malformed"),
        (replace(FACTS, pin=b"main\n"), "pin-malformed"),
        (replace(FACTS, pin=format_pin(BASE)), "tag-contradicts-pin"),
    ],
)
def test_what_is_no_pin_commit(facts: PinFacts, identifier: str) -> None:
    with pytest.raises(ReleaseError) as caught:
        check_pin_commit(facts, SHA, where="a tag")
    assert caught.value.id == identifier
    assert caught.value.where == facts.commit
    assert caught.value.remedy


def test_what_two_folders_do_not_share() -> None:
    other = replace(PLAIN_FILE, oid="2" * 40)
    workflows = TreeEntry(name=".github", mode="040000", kind="tree", oid="3" * 40)
    assert changed_names([PLAIN_FILE, workflows], [workflows, other]) == (PIN_FILE,)
    assert changed_names([PLAIN_FILE, workflows], [PLAIN_FILE]) == (".github",)
    assert changed_names([replace(PLAIN_FILE, mode="100755")], [PLAIN_FILE]) == (PIN_FILE,)
    assert changed_names([workflows, PLAIN_FILE], [PLAIN_FILE, workflows]) == ()
