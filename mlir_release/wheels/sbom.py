"""The software bill of materials of a wheel: what is linked into it, as CycloneDX JSON (PEP 770).

No timestamp and no random serial number: the same inputs give the same bytes.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_release.wheels.request import WheelRequest

#: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/
SPEC_VERSION = "1.6"

#: Licences of the binding libraries, as SPDX expressions. nanobind's shared library includes tsl::robin_map.
_BINDING_LIBRARIES = {
    "nanobind": [("nanobind", "BSD-3-Clause"), ("robin-map", "MIT")],
    "pybind11": [("pybind11", "BSD-3-Clause")],
}


def bill_of_materials(request: WheelRequest, *, binding_version: str, code_generators: tuple[str, ...]) -> str:
    """The SBOM of the wheel that ``request`` asks for.

    :param binding_version: the version requirement of nanobind or pybind11 that it is built with
    :param code_generators: LLVM's code generators that its profile links
    """
    info = request.sdk.info
    wheel = f"pkg:pypi/{request.distribution}@{request.version}"
    llvm = f"pkg:github/llvm/llvm-project@{info.revision}"
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": llvm,
            "name": "llvm-project",
            "version": info.llvm_version,
            "purl": llvm,
            "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
            "properties": [
                {"name": "mlir-release:provider", "value": info.provider},
                {"name": "mlir-release:code-generators", "value": ",".join(code_generators)},
                {"name": "mlir-release:sdk-digest", "value": info.digest},
            ],
        }
    ]
    for library in info.linked:
        components.append(_component(library.name, library.version, library.license))
    for position, (name, license) in enumerate(_BINDING_LIBRARIES[info.binding_library]):
        if position == 0:
            components.append(_component(name, "", license, purl=f"pkg:pypi/{name}", requirement=binding_version))
        else:
            components.append(_component(name, "", license))
    references = [str(component["bom-ref"]) for component in components]
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel + '#' + request.target + '#' + info.digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": wheel,
                "name": request.distribution,
                "version": str(request.version),
                "purl": wheel,
                "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
            },
            "properties": [
                {"name": "mlir-release:profile", "value": request.profile},
                {"name": "mlir-release:tag", "value": request.tag},
                {"name": "mlir-release:target", "value": request.target},
            ],
        },
        "components": sorted(components, key=lambda component: str(component["bom-ref"])),
        "dependencies": [{"ref": wheel, "dependsOn": sorted(references)}],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(name: str, version: str, license: str, *, purl: str = "", requirement: str = "") -> dict[str, Any]:
    purl = purl or f"pkg:generic/{name}" + (f"@{version}" if version else "")
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "purl": purl,
        "licenses": [{"expression": license}],
    }
    if version:
        component["version"] = version
    if requirement:
        component["properties"] = [{"name": "mlir-release:requirement", "value": requirement}]
    return component
