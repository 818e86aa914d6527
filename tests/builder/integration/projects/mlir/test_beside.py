"""The suite ``beside`` on packages that do, and do not, work in one process with a made-up ``mlir``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlir_release.builder.projects.mlir.suites.beside import run_beside
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import ANY_PYTHON
from tests.wheel_factory import make_wheel

OURS = b"""
class Context:
    def __enter__(self): pass
    def __exit__(self, *error): pass
class Module:
    parse = staticmethod(lambda text: text.replace("@f", " @f").replace("  ", " "))
"""
WORKS = "\ndef works(): pass\n"
PASS, FAIL, UNSUPPORTED = TestOutcome.PASS, TestOutcome.FAIL, TestOutcome.UNSUPPORTED


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> venv.VirtualEnvironment:
    root = tmp_path_factory.mktemp("ours")
    made = venv.create(root / "environment", Path(sys.executable))
    made.install(make_wheel(root, python=ANY_PYTHON, platform="any", files={"mlir/ir.py": OURS}))
    return made


@pytest.mark.parametrize(
    ("content", "expected", "said"),
    [
        (WORKS, {"alone": PASS, "after-ours": PASS, "before-ours": PASS}, ""),
        (
            f"import os, sys\nif 'mlir.ir' in sys.modules: os.abort(){WORKS}",
            {"alone": PASS, "after-ours": FAIL, "before-ours": PASS},
            "exit code -6",
        ),
        (
            f"import sys\nsys.modules.setdefault('mlir.ir', None){WORKS}",
            {"alone": PASS, "after-ours": PASS, "before-ours": FAIL},
            "ModuleNotFoundError: import of mlir.ir halted",
        ),
        ("raise RuntimeError('no processor of graphics')", {"alone": UNSUPPORTED}, "no processor of graphics"),
        (None, {"": UNSUPPORTED}, "No matching distribution found for other"),
    ],
)
def test_a_neighbour_is_used_in_both_orders(
    environment: venv.VirtualEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    expected: dict[str, TestOutcome],
    said: str,
) -> None:
    (tmp_path / "wheels").mkdir()
    if content is not None:
        make_wheel(tmp_path / "wheels", distribution="other", python=ANY_PYTHON, platform="any", content=content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    listed = tmp_path / "beside.toml"
    listed.write_text(
        '[[neighbour]]\ninstall = ["other"]\nimports = "import other as theirs"\nuses = "theirs.works()"\n'
    )
    results = list(run_beside(environment, tmp_path, listed))
    assert {result.name.removeprefix("other").lstrip("/"): result.outcome for result in results} == expected
    assert said in "".join(result.message for result in results)
    assert not (tmp_path / "neighbour").exists()
