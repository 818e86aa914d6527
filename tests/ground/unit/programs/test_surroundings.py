from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.builder.sdk.build_environment import Native
from mlir_release.builder.wheels import backends
from mlir_release.ground.programs import surroundings
from mlir_release.ground.programs.process import capture, run_logged
from mlir_release.ground.programs.surroundings import ALLOWED, foreign_environment, withheld
from mlir_release.ground.python.venv import VirtualEnvironment
from mlir_release.release.instructions.install_check import clean_environment

SECRETS = (
    "ACTIONS_CACHE_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RESULTS_URL",
    "ACTIONS_RUNTIME_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "DOCKER_AUTH_CONFIG",
    "GH_TOKEN", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "GITHUB_TOKEN",
    "GIT_ASKPASS", "GOOGLE_APPLICATION_CREDENTIALS", "MLIR_RELEASE_EXPORT_TOKEN", "MLIR_RELEASE_NOTIFY", "MY_PAT",
    "NETRC", "OPENAI_API_KEY", "PYPI_TOKEN", "SIGSTORE_ID_TOKEN", "SSH_AUTH_SOCK", "TWINE_PASSWORD", "TWINE_USERNAME",
    "ghp_token", "SSH_PRIVATE_KEY", "NPM_AUTHTOKEN", "DB_PASS", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "DATABASE_URL",
    "JWT", "AZURE_CREDS", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_GLOBAL", "GIT_DIR", "SCCACHE_BUCKET", "SCCACHE_WEBDAV_PASSWORD", "CCACHE_REMOTE_STORAGE",
    "CIBW_ENVIRONMENT", "UV_PUBLISH_TOKEN", "PIP_CLIENT_CERT", "CMAKE_TOKEN", "MLIR_RELEASE_FORGE", "XAUTHORITY",
)  # fmt: skip
VISIBLE = (
    "CC", "CI", "CMAKE_BUILD_PARALLEL_LEVEL", "CXXFLAGS", "GITHUB_ACTIONS", "GITHUB_REF_NAME", "GITHUB_WORKSPACE",
    "HOME", "HTTPS_PROXY", "LIB", "MAKEFLAGS", "MLIR_RELEASE_CACHE", "MLIR_RELEASE_UPSTREAM_COMMIT",
    "MLIR_RELEASE_UPSTREAM_SOURCE", "PATH", "PIP_FIND_LINKS", "PIP_INDEX_URL", "REQUESTS_CA_BUNDLE", "RUNNER_OS",
    "SCCACHE_CACHE_SIZE", "SCCACHE_DIR", "SDKROOT", "SOURCE_DATE_EPOCH", "SSL_CERT_FILE", "https_proxy", "no_proxy",
    "SystemRoot", "ProgramFiles(x86)", "VCToolsInstallDir", "INCLUDE", "MACOSX_DEPLOYMENT_TARGET", "LC_CTYPE", "TMPDIR",
)  # fmt: skip
VALUE = "seen by foreign code"

#: What runs programs that must authenticate, git and twine, or the toolkit itself for one target of a job, which gives
#: foreign programs no more than this process would. They get its environment, explicitly.
TRUSTED = {"builder/commands/each.py", "ground/git/reach.py", "release/pypi/publish.py"}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        if not name.startswith("GIT_"):  # which would break git
            monkeypatch.setenv(name, VALUE)


@pytest.mark.parametrize("name", SECRETS)
def test_what_is_not_listed_is_withheld(name: str) -> None:
    assert foreign_environment({name: "x"}) == {}


@pytest.mark.parametrize("name", VISIBLE)
def test_what_builds_need_stays(name: str) -> None:
    assert foreign_environment({name: "x"}) == {name: "x"}


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=20))
def test_no_variable_of_another_name_ever_arrives(environ: dict[str, str]) -> None:
    assert not [name for name in foreign_environment(environ) if name.upper() not in ALLOWED]


def test_what_is_named_stays() -> None:
    environ = {"GITHUB_TOKEN": "t", "LICENSE_SERVER": "l", "GITHUB_ENV": "f", "PATH": "p"}
    assert foreign_environment(environ) == {"PATH": "p"}
    assert foreign_environment(environ, named=["GITHUB_TOKEN"]) == {"PATH": "p", "GITHUB_TOKEN": "t"}
    surroundings.also_pass(["LICENSE_SERVER"])
    assert foreign_environment(environ) == {"PATH": "p", "LICENSE_SERVER": "l"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIP_INDEX_URL", "https://user:secret@pypi.example.com/simple"),
        ("UV_INDEX", "ours=https://secret@pypi.example.com/simple https://pypi.org/simple"),
        ("PIP_FIND_LINKS", "/wheels https://__token__:secret@example.com/wheels"),
        ("https_proxy", "user:secret@proxy:3128"),
        ("ALL_PROXY", "socks5h://user:secret@proxy:1080"),
    ],
)
def test_an_address_with_credentials_is_passed_only_if_it_is_named(name: str, value: str) -> None:
    assert foreign_environment({name: value}) == {}
    assert foreign_environment({name: value}, named=[name]) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIP_INDEX_URL", "https://pypi.example.com/simple"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("http_proxy", "proxy:3128"),
        ("DOCKER_HOST", "ssh://builder@machine"),
        ("PATH", "/opt/homebrew/opt/python@3.12/bin:/usr/bin"),
        ("TEMP", r"C:\Users\me@example\AppData\Local\Temp"),
        ("PIP_FIND_LINKS", "file:///wheels/a@b"),
    ],
)
def test_an_address_without_credentials_is_passed(name: str, value: str) -> None:
    assert foreign_environment({name: value}) == {name: value}


def test_a_message_names_what_was_withheld_and_shows_no_value_and_no_odd_name() -> None:
    environ = {f"VARIABLE_{number:02}": "secret" for number in range(15)} | {"PATH": "p", "A\n::error::x": "secret"}
    said = withheld(environ)
    assert said.startswith("; variables withheld from the program: VARIABLE_00, VARIABLE_01, ")
    assert "VARIABLE_11 (4 more); name in environment of [release] in targets.toml those that it needs" in said
    assert "secret" not in said
    assert "::error" not in said
    assert "VARIABLE_12" not in said
    assert withheld({"PATH": "p"}) == ""


@pytest.mark.usefixtures("secrets")
def test_programs_see_no_secret_unless_it_is_given(tmp_path: Path) -> None:
    code = "import os; print(sorted(name for name, value in os.environ.items() if value == 'seen by foreign code'))"
    command = [sys.executable, "-c", code]
    assert capture(command).stdout.strip() == "[]"
    run_logged(command, log=tmp_path / "log")
    assert (tmp_path / "log").read_text().splitlines()[-1] == "[]"
    given = capture(command, environment=dict(os.environ)).stdout
    assert "GITHUB_TOKEN" in given


@pytest.mark.usefixtures("secrets")
def test_no_environment_of_foreign_code_has_a_secret(tmp_path: Path) -> None:
    tools = VirtualEnvironment(root=tmp_path)
    environments = [
        tools.variables({"MLIR_RELEASE_SDK": "/sdk"}),
        clean_environment(),
        Native(source=tmp_path / "a", root=tmp_path / "b", tools=tools).variables(),
    ]
    for environment in environments:
        assert VALUE not in environment.values()
        assert environment["PATH"]


def test_only_what_authenticates_passes_on_the_whole_environment() -> None:
    """Elsewhere nothing starts from all of ``os.environ``: neither as it is, nor copied, nor filtered."""
    root = Path(backends.__file__).parents[2]
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _passes_environment_on(node)
    }
    assert found - {"ground/programs/surroundings.py"} == TRUSTED


def _passes_environment_on(node: ast.AST) -> bool:
    """``{**os.environ}``, ``dict(os.environ)``, ``os.environ | …``, ``os.environ if …``, ``environment=…``, …"""
    match node:
        case ast.Dict(keys=keys, values=values):
            return any(key is None and _is_environ(value) for key, value in zip(keys, values, strict=True))
        case ast.IfExp(body=value, orelse=other):
            return _is_environ(value) or _is_environ(other)
        case ast.BinOp(left=left, right=right):
            return _is_environ(left) or _is_environ(right)
        case ast.comprehension(iter=ast.Call(func=ast.Attribute(value=value))):
            return _is_environ(value)
        case ast.Call(func=ast.Name(id="dict"), args=[value]):
            return _is_environ(value)
        case ast.keyword(arg="environment" | "env", value=value):
            return _is_environ(value)
    return False


def _is_environ(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "os.environ"
