"""The files of the kit, as text. Pure: the same pin gives the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.extras.downstream.pin import Pin

PYPROJECT = "pyproject.toml"
#: The llvm-project commit that an integrate walks forward.
LLVM_PIN = "llvm-project.version"


def make_kit(pin: Pin, *, smoke: str = "") -> Mapping[str, str]:
    """The files by their paths below the downstream's folder.

    :param smoke: the command that tells whether an llvm-project commit is good; empty: without an integrate
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("mlir_release.extras.downstream"),
        autoescape=False,  # TOML and YAML; {{ }} is GitHub's own
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["toml"] = json.dumps  # of a string or a list of strings the same

    def draw(name: str) -> str:
        return templates.get_template(f"{name}.j2").render(pin=pin, smoke=smoke, llvm_pin=LLVM_PIN)

    files = {
        PYPROJECT: draw("pyproject.toml"),
        ".github/workflows/wheels.yml": draw("wheels.yml"),
        ".github/dependabot.yml": draw("dependabot.yml"),
        "renovate.json": json.dumps(renovate(pin), indent=2) + "\n",
    }
    if smoke:
        files["integrate.toml"] = draw("integrate.toml")
        files[LLVM_PIN] = f"{pin.manifest.revision}\n"
        files[".github/workflows/llvm.yml"] = draw("llvm.yml")
    return files


def renovate(pin: Pin) -> dict[str, Any]:
    """``renovate.json``: the versions to come are those of the simple index, spelled as the pin is.

    Its manager for ``pyproject.toml`` moves the requirements and ``uv.lock``, a manager of our own the tag in URLs.
    Both ask one data source, and their updates are one pull request. Versions compare by PEP 440, in which
    ``20261120.10`` is above ``20261120.09``, and any date above LLVM's versions.
    """
    # Not yanked, each once. JSONata, docs.jsonata.org; the file is PEP 691's.
    version = '$split($, "-")[1]'
    if pin.is_snapshot:  # 20261120.2 -> 20261120.02
        version = f'({version} ~> $split(".")) ~> function($v) {{ $v[0] & "." & $pad($v[1], -2, "0") }}'
    found = f"$distinct(files[yanked = false].filename.({version}))"
    config: dict[str, Any] = {
        "$schema": "https://docs.renovatebot.com/renovate-schema.json",
        "extends": ["config:recommended", "helpers:pinGitHubActionDigests"],
        "customDatasources": {
            "mlir": {
                "defaultRegistryUrlTemplate": f"{pin.folder}/simple/{{{{packageName}}}}/index.json",
                "transformTemplates": [f'{{"releases": [{found}.{{"version": $}}]}}'],
            }
        },
        "packageRules": [
            {
                "matchManagers": ["pep621"],
                "matchPackageNames": list(pin.distributions),
                "overrideDatasource": "custom.mlir",
                "registryUrls": [],
            },
            {"matchPackageNames": list(pin.distributions), "groupName": "mlir", "separateMajorMinor": False},
        ],
    }
    if pin.is_snapshot:
        config["customManagers"] = [
            {
                "customType": "regex",
                "managerFilePatterns": [f"/^{PYPROJECT.replace('.', chr(92) + '.')}$/"],
                "matchStrings": [r"snapshot-(?<currentValue>\d{8}\.\d{2})"],
                "depNameTemplate": pin.distributions[0],
                "datasourceTemplate": "custom.mlir",
                "versioningTemplate": "pep440",
            }
        ]
    return config
