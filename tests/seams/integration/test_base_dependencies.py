"""What an integrator installs: the toolkit without an extra. Every command says which extra it lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integrate.integration import miniature
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
LOCKED = re.findall(
    r"^([\w.-]+)==", (ROOT / "requirements" / "integrate.txt").read_text(encoding="utf-8"), re.MULTILINE
)
#: Hides what only extras bring, as if it were not installed.
ALONE = f"""
import sys
from importlib.metadata import packages_distributions
from packaging.utils import canonicalize_name

base = {{*{LOCKED!r}, "mlir-release", "pip"}}
hidden = {{
    name for name, owners in packages_distributions().items()
    if not any(canonicalize_name(owner) in base for owner in owners)
}}


class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


assert {{"sigstore", "jinja2", "installer", "zstandard"}} <= hidden
sys.meta_path.insert(0, Hidden)
from mlir_release.cli.app import main
main()
"""


def alone(*words: str | Path, variables: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ALONE, *words], env=dict(variables), capture_output=True, text=True)


def test_an_integrate_needs_no_extra(tmp_path: Path) -> None:
    world = miniature.build(tmp_path / "world", patched=False, small=True)
    variables = {**os.environ, **world.environment()}
    for words, code in ((("start",), 0), (("run",), 7), (("status",), 0), (("plan",), 0)):
        done = alone("integrate", "-C", world.checkout, *words, variables=variables)
        assert done.returncode == code, done.stderr
        assert "tool-missing" not in done.stderr


def test_a_forge_and_its_matrix_need_no_extra(tmp_path: Path) -> None:
    for words in (("forge", "init", tmp_path / "forge"), ("matrix",), ("release", "list")):
        done = alone(*words, variables={**os.environ, "MLIR_RELEASE_FORGE": f"local:{tmp_path / 'forge'}"})
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("index --base-url https://example.org -o PAGES", "release"),
        ("rehearsal", "wheels"),
        ("wheels build --python cp312 --sdk PLACE -o PAGES", "wheels"),
        ("conda package snapshot-20261120.01", "conda"),
        ("mlgo train PLACE --llvm PLACE -o PAGES", "mlgo"),
        ("apidocs WHEEL -o PAGES", "apidocs"),
        ("release diff WHEEL WHEEL", "apidocs"),
        ("attest snapshot-20261120.01 PLACE -o PAGES", "release"),
        ("pypi snapshot-20261120.01", "github"),
        ("wheels inspect WHEEL", "wheels"),  # and it does not call the wheel damaged
        ("sdk unpack ARCHIVE -o PAGES", "wheels"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(tmp_path: Path, words: str, extra: str) -> None:
    forge = {**os.environ, "MLIR_RELEASE_FORGE": f"local:{tmp_path / 'forge'}"}
    assert alone("forge", "init", tmp_path / "forge").returncode == 0
    wheel = make_wheel(tmp_path, files={"mlir/_mlir_libs/a.so": b"\x7fELF" + bytes(60)})
    archive = tmp_path / "sdk-x.tar.zst"
    archive.write_bytes(b"")
    places = {"PAGES": str(tmp_path / "pages"), "WHEEL": str(wheel), "ARCHIVE": str(archive), "PLACE": str(tmp_path)}
    done = alone(*(places.get(word, word) for word in words.split()), variables=forge)
    assert done.returncode == 3, done.stderr
    assert "error[tool-missing]" in done.stderr
    assert f"[{extra}]" in done.stderr
