from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from mlir_release.host.process import capture, run_logged
from mlir_release.host.surroundings import is_secret, without_secrets
from mlir_release.host.venv import VirtualEnvironment
from mlir_release.release.install_check import clean_environment
from mlir_release.sdk.build_environment import Native
from mlir_release.wheels import backends

SECRETS = (
    "ACTIONS_CACHE_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RESULTS_URL",
    "ACTIONS_RUNTIME_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "DOCKER_AUTH_CONFIG",
    "GH_TOKEN", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "GITHUB_TOKEN",
    "GIT_ASKPASS", "GOOGLE_APPLICATION_CREDENTIALS", "MLIR_RELEASE_EXPORT_TOKEN", "MLIR_RELEASE_NOTIFY", "MY_PAT",
    "NETRC", "OPENAI_API_KEY", "PYPI_TOKEN", "SIGSTORE_ID_TOKEN", "SSH_AUTH_SOCK", "TWINE_PASSWORD", "TWINE_USERNAME",
    "ghp_token", "SSH_PRIVATE_KEY", "NPM_AUTHTOKEN",
)  # fmt: skip
VISIBLE = (
    "CC", "CI", "CMAKE_BUILD_PARALLEL_LEVEL", "CXXFLAGS", "GITHUB_ACTIONS", "GITHUB_REF_NAME", "GITHUB_WORKSPACE",
    "HOME", "HTTPS_PROXY", "LIB", "MAKEFLAGS", "MLIR_RELEASE_CACHE", "MLIR_RELEASE_UPSTREAM_COMMIT",
    "MLIR_RELEASE_UPSTREAM_SOURCE", "PATH", "PIP_FIND_LINKS", "PIP_INDEX_URL", "REQUESTS_CA_BUNDLE", "RUNNER_OS",
    "SCCACHE_CACHE_SIZE", "SCCACHE_DIR", "SDKROOT", "SOURCE_DATE_EPOCH", "XAUTHORITY", "SSL_CERT_FILE",
)  # fmt: skip
VALUE = "seen by foreign code"

#: What runs programs that must authenticate: git and twine. They get this process's environment, explicitly.
TRUSTED = {"git/repository.py", "pypi/publish.py"}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, VALUE)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_told_by_their_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", VISIBLE)
def test_what_builds_need_stays(name: str) -> None:
    assert not is_secret(name)


def test_what_is_asked_for_stays() -> None:
    given = {"GITHUB_TOKEN": "t", "GITHUB_ENV": "f", "PATH": "p"}
    assert without_secrets(given) == {"PATH": "p"}
    assert without_secrets(given, keep=["GITHUB_TOKEN"]) == {"PATH": "p", "GITHUB_TOKEN": "t"}


def test_git_configuration_is_hidden_if_it_carries_a_token() -> None:
    common = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    harmless = common | {"GIT_CONFIG_KEY_1": "user.name", "GIT_CONFIG_VALUE_1": "x"}
    header = common | {"GIT_CONFIG_KEY_1": "http.https://x/.extraHeader", "GIT_CONFIG_VALUE_1": "Authorization: x"}
    assert without_secrets(harmless) == harmless
    assert without_secrets(header) == {}


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
    root = Path(backends.__file__).parents[1]
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _passes_environment_on(node)
    }
    assert found - {"host/surroundings.py"} == TRUSTED


def _passes_environment_on(node: ast.AST) -> bool:
    """``{**os.environ}``, ``dict(os.environ)``, ``os.environ | …``, ``… in os.environ.items()``, ``environment=…``."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return any(key is None and _is_environ(value) for key, value in zip(keys, values, strict=True))
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
