"""The software bill of materials of a wheel: what is linked into it, as CycloneDX JSON (PEP 770).

No timestamp and no random serial number: the same inputs give the same bytes.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.wheels.request import WheelRequest

#: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/
SPEC_VERSION = "1.6"

_LLVM_LICENSE = "Apache-2.0 WITH LLVM-exception"

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
    made_from = {
        "provider": info.provider,
        "code-generators": ",".join(code_generators),
        "sdk-digest": info.digest,
        **({"regalloc-model": request.regalloc_model.policy} if request.regalloc_model else {}),
    }
    components = [_component("llvm-project", info.llvm_version, _LLVM_LICENSE, purl=llvm, properties=made_from)]
    components += [_component(library.name, library.version, library.license) for library in info.linked]
    for name, license in _BINDING_LIBRARIES[info.binding_library]:
        if name == info.binding_library:
            requirement = {"requirement": binding_version}
            components.append(_component(name, "", license, purl=f"pkg:pypi/{name}", properties=requirement))
        else:
            components.append(_component(name, "", license))
    components.sort(key=lambda component: str(component["bom-ref"]))
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel + '#' + request.target + '#' + info.digest)}",
        "version": 1,
        "metadata": {
            "component": _component(request.distribution, str(request.version), _LLVM_LICENSE, purl=wheel),
            "properties": _properties({"profile": request.profile, "tag": request.tag, "target": request.target}),
        },
        "components": components,
        "dependencies": [{"ref": wheel, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(
    name: str, version: str, license: str, *, purl: str = "", properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
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
    if properties:
        component["properties"] = _properties(properties)
    return component


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": f"mlir-release:{name}", "value": value} for name, value in values.items()]
