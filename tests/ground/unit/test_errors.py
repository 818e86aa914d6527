from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from mlir_release.ground import errors
from mlir_release.ground.errors import ERRORS, MEANINGS, ConflictError, ExitCode, ReleaseError, UsageError

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "mlir_release"
#: Run before the package can be imported, with an error class of their own: of missing things of the machine.
SETUP = (ROOT / "tools" / "bootstrap.py", ROOT / "tools" / "install.py")


def test_an_error_says_what_where_why_and_what_to_do() -> None:
    error = UsageError("input-missing", "It broke.", where="here", why="because", remedy="mend it")
    assert str(error) == "It broke.\n  where: here\n  why: because\n  to do: mend it"
    assert error.to_json() == {
        "error": "input-missing", "what": "It broke.", "where": "here", "why": "because", "remedy": "mend it",
        "exit_code": 2,
    }  # fmt: skip


def test_of_a_very_long_reason_the_begin_and_the_end_are_shown() -> None:
    why = "\n".join(f"error: unable to write file {number}" for number in range(3000))
    shown = str(UsageError("input-missing", "It broke.", why=why)).splitlines()
    assert len(shown) == 1 + 20 + 1 + 60 + 1
    assert shown[1] == "  why: error: unable to write file 0"
    assert shown[21].strip() == "… 2920 lines left out …"
    assert shown[-2].strip() == "error: unable to write file 2999"
    for whole in ("\n".join(map(str, range(81))), "x" * 4000):
        assert UsageError("input-missing", "It broke.", why=whole).why == whole
    assert UsageError("input-missing", "It broke.", why="x" * 10**7).why == "x" * 4000 + " …"


def test_an_error_without_a_remedy_has_that_of_its_id() -> None:
    error = ConflictError("lost-race", "It moved.")
    assert str(error) == f"It moved.\n  to do: {MEANINGS['lost-race'].remedy}"
    assert error.to_json()["remedy"] == MEANINGS["lost-race"].remedy


def test_a_package_that_adds_commands_may_use_ids_of_its_own() -> None:
    assert str(UsageError("theirs", "It broke.")) == "It broke."


def test_the_page_of_error_ids_is_true() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "list_errors.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_id_has_one_exit_code_and_says_what_to_do() -> None:
    assert len(MEANINGS) == sum(len(ids) for ids in ERRORS.values())
    for id, meaning in MEANINGS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", id)
        assert "" not in (meaning.what, meaning.remedy), id
        assert not {"|", "\n"} & {*meaning.what, *meaning.remedy}, id


def test_every_error_of_ours_has_an_id_of_the_table_and_every_id_an_error() -> None:
    assert {id for id, _, _ in made()} == set(MEANINGS)
    assert [f"{id} ends with {code} in {place}" for id, code, place in made() if id not in ERRORS[code]] == []


def test_the_table_of_older_ids_leads_to_ids_that_there_are() -> None:
    rows = re.findall(r"^\| `(.*)` \| `(.*)` \|$", (ROOT / "docs" / "error-ids.md").read_text(), re.MULTILINE)
    assert len(rows) > 400
    assert rows == sorted(rows)
    assert {new for _, new in rows} <= set(MEANINGS)
    assert not {old for old, _ in rows} & set(MEANINGS)


@cache
def made() -> list[tuple[str, ExitCode, str]]:
    """The id, the exit code and the place of each error that the package can make."""
    trees = {path: ast.parse(path.read_text()) for path in [*sorted(PACKAGE.rglob("*.py")), *SETUP]}
    plain = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReleaseError)]
    codes = {**{kind.__name__: kind.exit_code for kind in plain}, "SetupError": ExitCode.ENVIRONMENT}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for kind in classes * 3:  # subclasses of subclasses
        bases = [base.id for base in kind.bases if isinstance(base, ast.Name) and base.id in codes]
        if bases and kind.name not in codes:
            codes[kind.name] = codes[bases[0]]
    owners = {
        call: kind.name
        for kind in classes
        if kind.name in codes
        for call in ast.walk(kind)
        if called(call) == "__init__"
    }
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            name = owners.get(node, called(node))
            if isinstance(node, ast.Call) and name == "_Cause":  # a row of the table of GitHub's refusals
                code = codes[called(ast.Call(node.args[0], [], []))]
                found += [(id, code, f"{path.relative_to(ROOT)}:{node.lineno}") for id in literals(node.args[1])]
            if isinstance(node, ast.Call) and len(node.args) > 1 and name in codes:  # click's own has one
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                ids = literals(node.args[0])
                assert ids or name not in {kind.__name__ for kind in plain}, f"{place}: an id is a literal"
                found += [(id, codes[name], place) for id in ids]
    return found


def called(node: ast.AST) -> str:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "id", None) or getattr(node.func, "attr", ""))


def literals(node: ast.expr) -> list[str]:
    """The string literals that an expression can be: one, or the two of a conditional."""
    match node:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.IfExp(body=first, orelse=second):
            return [*literals(first), *literals(second)]
        case _:
            return []
