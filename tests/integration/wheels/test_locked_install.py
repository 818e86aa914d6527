"""pip installs what the lock has by hash, and refuses other bytes of the same version."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_release.errors import MachineError
from mlir_release.host import venv
from mlir_release.host.locked import Chosen, choose


@pytest.fixture
def environment(tmp_path: Path) -> venv.VirtualEnvironment:
    return venv.create(tmp_path / "environment", Path(sys.executable))


def test_the_lock_installs(environment: venv.VirtualEnvironment) -> None:
    environment.install_locked(choose(["scikit-build-core>=1.1,<2", "nanobind~=2.9.0"]))
    installed = environment.installed()
    assert installed["nanobind"] == "2.9.2"
    assert {"scikit-build-core", "pathspec", "packaging"} <= installed.keys()


def test_other_bytes_of_the_same_version_are_refused(environment: venv.VirtualEnvironment) -> None:
    (pin,) = choose(["nanobind~=2.9.0"]).pins
    other = replace(pin, hashes=("sha256:" + "0" * 64,))
    with pytest.raises(MachineError) as caught:
        environment.install_locked(Chosen(pins=(other,), unlocked=()))
    assert caught.value.id == "pip-failed"
    assert "DO NOT MATCH THE HASHES" in caught.value.why
    assert environment.installed() == {}
