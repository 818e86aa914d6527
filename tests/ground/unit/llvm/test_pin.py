from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_release.ground.errors import NeedsPersonError, ReleaseError
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin, parse_pin
from mlir_release.release.model.pin_commit import PinFacts, TreeEntry, changed_names, check_pin_commit
from tests.refusals import refused

SHA = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no"),
        (b"", "is empty"),
        (b"ca7933e47d3a\n", "holds an abbreviated commit"),
        (b"main\n", "does not hold a commit but"),
        (SHA.upper().encode(), "does not hold a commit but"),
        (f"{SHA}\n{SHA}\n".encode(), "does not hold a commit but"),
        (b"\xff\xfe\x00" * 100, "does not hold a commit but"),
    ],
)
def test_bad_pins(content: bytes | None, said: str) -> None:
    error = refused(lambda: parse_pin(content, where="a file"), "pin-invalid", said)
    assert error.remedy


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
    ("facts", "said"),
    [
        (replace(FACTS, parents=()), "does not name a pin commit"),
        (replace(FACTS, parents=("e" * 40, BEFORE, BASE)), "does not name a pin commit"),
        (replace(FACTS, parents=(BASE, BASE)), "does not name a pin commit"),
        (replace(FACTS, base_on_branch=False), "would be built by a toolkit that is not of"),
        (replace(FACTS, changed=(".github", PIN_FILE)), "names changes more than the pin"),
        (replace(FACTS, changed=("targets.toml",)), "names changes more than the pin"),
        (replace(FACTS, entry=replace(PLAIN_FILE, mode="120000"), pin=None), "is no plain file in the commit that"),
        (
            replace(FACTS, entry=replace(PLAIN_FILE, mode="160000", kind="commit"), pin=None),
            "is no plain file in the commit that",
        ),
        (replace(FACTS, entry=None, pin=None), "names has no proper pin"),
        (replace(FACTS, pin=b"main\n"), "names has no proper pin"),
        (replace(FACTS, pin=format_pin(BASE)), "but the commit that it names pins"),
    ],
)
def test_what_is_no_pin_commit(facts: PinFacts, said: str) -> None:
    with pytest.raises(ReleaseError) as caught:
        check_pin_commit(facts, SHA, where="a tag")
    assert said in caught.value.what
    assert caught.value.id == ("tag-foreign" if isinstance(caught.value, NeedsPersonError) else "tampered")
    assert caught.value.where == facts.commit
    assert caught.value.remedy


def test_what_two_folders_do_not_share() -> None:
    other = replace(PLAIN_FILE, oid="2" * 40)
    workflows = TreeEntry(name=".github", mode="040000", kind="tree", oid="3" * 40)
    assert changed_names([PLAIN_FILE, workflows], [workflows, other]) == (PIN_FILE,)
    assert changed_names([PLAIN_FILE, workflows], [PLAIN_FILE]) == (".github",)
    assert changed_names([replace(PLAIN_FILE, mode="100755")], [PLAIN_FILE]) == (PIN_FILE,)
    assert changed_names([workflows, PLAIN_FILE], [PLAIN_FILE, workflows]) == ()
