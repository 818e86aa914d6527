"""YAML by PyYAML, which comes with extras of the toolkit only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.needs import install_extra

if TYPE_CHECKING:
    from types import ModuleType


def pyyaml() -> ModuleType:
    """The module ``yaml``. :raises MachineError: ``tool-missing``"""
    try:
        import yaml
    except ImportError as error:
        raise MachineError(
            "tool-missing",
            "reading and writing YAML needs PyYAML, which is not installed",
            remedy=install_extra("github"),
        ) from error
    return yaml
