"""Whether requirements have wheels, as pip says it; uv asks the package index that pip is configured with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.resolver import Resolution, WantedPlace, resolve, resolve_all
from mlir_release.ground.python.uv_settings import uv_settings
from tests.fake_pip import fake_pip  # noqa: F401

if TYPE_CHECKING:
    from tests.fake_pip import FakePip

WANTED = WantedPlace(CPython(3, 14), PlatformTag.parse("manylinux_2_28_x86_64"))

#: pip 26.3's words.
CAPPED = """\
ERROR: Ignored the following yanked versions: 2.4.0
ERROR: Could not find a version that satisfies the requirement numpy<=2.1.2,>=2.1 (from versions: 2.3.2, 2.4rc1, 2.5.5)
ERROR: No matching distribution found for numpy<=2.1.2,>=2.1
"""
NOTHING = """\
ERROR: Could not find a version that satisfies the requirement numpy>=2.1 (from versions: none)
ERROR: No matching distribution found for numpy>=2.1
"""
UNREACHABLE = (
    "2026-11-21T22:30:00,117 Could not fetch URL https://index.example/simple/numpy/: connection error: "
    "HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded (Connection refused) - skipping\n"
)
NOT_FOUND = (
    "2026-11-21T22:30:00,117 Could not fetch URL https://index.example/simple/numpy/: "
    "404 Client Error: Not Found for url: https://index.example/simple/numpy/ - skipping\n"
)
CONFLICT = """\
ERROR: Cannot install ml-dtypes==0.5.0 and numpy<2 because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
"""


def test_what_pip_would_install(pip: FakePip) -> None:
    pip.answer(report=json.dumps({"install": [{"metadata": {"name": "numpy", "version": "2.5.5"}}]}))
    found = resolve(["numpy>=2.1", 'tomli; python_version < "3.14"'], WANTED)
    (words,) = pip.asked
    assert found == Resolution(installable=True, versions={"numpy": "2.5.5"})
    assert words[-1] == "numpy>=2.1"
    assert {"--only-binary=:all:", "--python-version=3.14", "--abi=cp314", "--dry-run"} <= set(words)
    platforms = [word.partition("=")[2] for word in words if word.startswith("--platform=")]
    assert platforms[:2] == ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64"]
    assert {"manylinux2014_x86_64", "manylinux_2_5_x86_64"} <= set(platforms)


@pytest.mark.parametrize(
    ("stderr", "log", "installable", "why"),
    [
        (CAPPED, "", False, "numpy<=2.1.2,>=2.1 has no wheel there (2.3.2 to 2.5.5 have)"),
        (CAPPED, UNREACHABLE, False, "numpy<=2.1.2,>=2.1 has no wheel there"),
        (NOTHING, "", False, "numpy>=2.1 has no wheel there (no version has)"),
        (NOTHING, NOT_FOUND, False, "numpy>=2.1 has no wheel there (no version has)"),
        (NOTHING, UNREACHABLE, None, "No matching distribution found"),
        (NOTHING, NOT_FOUND + UNREACHABLE, None, "No matching distribution found"),
        (CONFLICT, "", False, "Cannot install ml-dtypes==0.5.0 and numpy<2"),
        ("No module named pip", "", None, "No module named pip"),
        ("", "", None, "exit code 1"),
    ],
    ids=[
        "capped", "one of two indexes", "no version", "not there", "unreachable", "not in one, other unreachable",
        "conflict", "no pip", "silent",
    ],
)  # fmt: skip
def test_no_answer_is_not_a_no(pip: FakePip, stderr: str, log: str, installable: bool | None, why: str) -> None:
    pip.answer(stderr=stderr, code=1, log=log)
    found = resolve(["numpy>=2.1"], WANTED)
    assert found.installable is installable
    assert why in found.why


def test_no_requirements_need_no_index(pip: FakePip) -> None:
    assert resolve(['numpy; sys_platform == "win32"'], WANTED).installable
    assert not pip.asked


def test_each_interpreter_is_asked_for_once(pip: FakePip) -> None:
    pip.answer(report='{"install": []}')
    other = WantedPlace(CPython(3, 15, free_threaded=True), WANTED.platform)
    assert set(resolve_all(["numpy"], [WANTED, other, WANTED])) == {WANTED, other}
    assert len(pip.asked) == 2


LISTED = """:env:.index-url='https://user:word@mirror/simple'
:env:.no-index='0'
global.cert='/etc/ours.pem'
global.extra-index-url='\\nhttps://a/simple\\nhttps://b/simple'
global.index-url='https://file/simple'
install.find-links='/wheels https://c/links'
install.no-index='true'
"""


def test_uv_is_told_all_that_pip_is_configured_with_and_nothing_else() -> None:
    options, environment = uv_settings(LISTED, {"UV_INDEX_URL": "https://elsewhere", "HOME": "/root"})
    expected = {
        "HOME": "/root",
        "UV_INDEX_URL": "https://user:word@mirror/simple",
        "UV_EXTRA_INDEX_URL": "https://a/simple https://b/simple",
        "UV_FIND_LINKS": "/wheels,https://c/links",
        "SSL_CERT_FILE": "/etc/ours.pem",
        "UV_NO_CONFIG": "1",
    }
    assert (options, environment | expected) == ([], environment)
    assert uv_settings("global.no-index='true'\n", {})[0] == ["--no-index"]


def test_the_authorities_of_requests_are_those_of_uv_too() -> None:
    given = {"REQUESTS_CA_BUNDLE": "/etc/ours.pem"}
    assert uv_settings("", given)[1]["SSL_CERT_FILE"] == "/etc/ours.pem"
    assert uv_settings(":env:.cert='/etc/pips.pem'\n", given)[1]["SSL_CERT_FILE"] == "/etc/pips.pem"
