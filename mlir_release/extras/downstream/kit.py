"""The files of the kit, and writing them for a published release: all of them, or none.

The release's manifest is checked before it is believed. The same pin gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_release.extras.downstream.pin import Kind, Pin, make_pin
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.pins.init import configuration
from mlir_release.integrate.tables import ExportTarget, UpstreamTable
from mlir_release.release.forge.files import settings_of_branch
from mlir_release.release.index.drawing import make_templates
from mlir_release.release.judging.check import need_its_tag
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.release_index import INDEX_NAME
from mlir_release.release.model.release_tags import LATEST_GOOD
from mlir_release.release.pinning.state import find_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

PYPROJECT = "pyproject.toml"
#: The llvm-project commit that an integrate walks forward.
LLVM_PIN = "llvm-project.version"


@dataclass(frozen=True, kw_only=True)
class WrittenKit:
    """A kit that was written."""

    directory: str
    tag: str
    pin: str  #: as the files spell it
    written: tuple[str, ...]  #: paths below the directory
    to_add: str  #: to an existing pyproject.toml; empty if it was written
    platforms: tuple[str, ...]  #: that the project builds: those of the release
    left_out: tuple[str, ...]  #: that the release set out to serve, and lacks

    def text(self) -> str:
        """For people."""
        lines = [f"{self.directory}: pinned to {self.tag}", *(f"  {path}" for path in self.written)]
        if self.left_out:
            lines.append(
                f"Not built is {', '.join(self.left_out)}: {self.tag} lacks it, and other releases may have it."
            )
        if self.to_add:
            lines += [f"{PYPROJECT} is there and was not changed. Add what it lacks of this:", "", self.to_add]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class KitOptions:
    """What is asked of a kit."""

    tag: str  #: or the name of a channel: the files name its tag of now; with latest-good, Renovate follows it
    kind: Kind
    name: str = ""  #: of the Python package; empty: the folder's name
    site: str = ""  #: URL of the pages; empty: those of the release repository on GitHub Pages
    smoke: str = ""  #: as of :func:`make_kit`


def write_kit(
    forge: Forge,
    directory: Path,
    asked: KitOptions,
    *,
    signed_by: SignedBy = AS_DECLARED,
    dry_run: bool = False,
) -> WrittenKit:
    """Write the files that pin a release into ``directory``, which is made if need be. No file is replaced.

    :raises UsageError: ``release-not-published``, ``option-invalid``, ``output-in-the-way``
    :raises NeedsPersonError: ``tag-foreign``
    :raises VerificationError: ``signature-invalid``, ``file-damaged``
    :raises MachineError: ``system-refused``
    """
    channel = asked.tag if asked.tag == LATEST_GOOD else ""
    manifest = read_release(forge, asked.tag, signed_by).manifest
    tag = manifest.tag
    facts = None
    if asked.kind == "bundle":
        state = find_state(forge, tag)
        need_its_tag(forge, manifest, revision=state.revision, version=state.wheel_version)
        facts = state.facts
    home = forge.services.address or manifest.repository
    name = asked.name or directory.resolve().name
    pin = make_pin(manifest, name=name, kind=asked.kind, site=asked.site, repository=home, facts=facts)
    if asked.smoke and not pin.repository_name:
        raise UsageError(
            "needs-github",
            f"{tag} is on no GitHub, where the integrate's workflow would be called",
            remedy="leave out --smoke, or name the release repository with --forge github:OWNER/NAME",
        )
    branch = settings_of_branch(forge, signed_by.branch).upstream_branch if manifest.stack is not None else ""
    files = dict(make_kit(pin, smoke=asked.smoke, channel=channel, branch=branch))
    to_add = files.pop(PYPROJECT) if (directory / PYPROJECT).is_file() else ""
    there = [path for path in files if (directory / path).exists() or (directory / path).is_symlink()]
    if there:
        raise _in_the_way(directory, there)
    made: list[Path] = []
    try:
        for path, text in () if dry_run else files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as file:
                made.append(target)
                file.write(text)
    except OSError as error:
        for target in made:
            target.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):  # another process writes it
            raise _in_the_way(directory, [path]) from None
        raise MachineError(
            "system-refused",
            "the files can't be written, and none of them was kept",
            where=str(error.filename or directory),
            why=str(error),
            remedy="make room, or correct the folder's permissions, and run this again",
        ) from error
    return WrittenKit(
        directory=str(directory),
        tag=tag,
        pin=pin.text,
        written=tuple(files),
        to_add=to_add,
        platforms=tuple(map(str, pin.platforms)),
        left_out=pin.left_out,
    )


def _in_the_way(directory: Path, there: Sequence[str]) -> UsageError:
    return UsageError(
        "output-in-the-way",
        f"{len(there)} of the files are there already: {', '.join(there)}",
        where=str(directory),
        why="nothing is overwritten, and nothing was written",
        remedy="write the kit into an empty folder and merge by hand, or move these files away",
    )


def make_kit(pin: Pin, *, smoke: str = "", channel: str = "", branch: str = "") -> Mapping[str, str]:
    """The files by their paths below the downstream's folder.

    :param smoke: the command that tells whether an llvm-project commit is good; empty: without an integrate
    :param channel: as of :func:`renovate`
    :param branch: of a release with carried patches: the fork's, to which an integrate exports them
    """
    templates = make_templates(
        "mlir_release.extras.downstream",
        autoescape=False,  # TOML and YAML; {{ }} is GitHub's own
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
    )
    templates.filters["toml"] = json.dumps  # of a string or a list of strings the same

    def draw(name: str) -> str:
        return templates.get_template(f"{name}.j2").render(pin=pin, smoke=smoke, llvm_pin=LLVM_PIN)

    files = {
        PYPROJECT: draw("pyproject.toml"),
        ".github/workflows/wheels.yml": draw("wheels.yml"),
        ".github/dependabot.yml": draw("dependabot.yml"),
        "renovate.json": json.dumps(renovate(pin, channel), indent=2) + "\n",
    }
    if smoke:
        stack, url = pin.manifest.stack, pin.manifest.upstream
        export = ExportTarget(remote=url, branch=branch) if stack is not None else None
        url = stack.upstream if stack is not None else url
        files[CONFIG_FILE] = configuration(
            [UpstreamTable(url=url, pin_file=LLVM_PIN, paths=("llvm", "mlir"), export=export)],
            smoke=smoke,
            notes=[f"It goes forward from the commit in {LLVM_PIN}, at first that of {pin.tag}."],
            schema=f"{pin.site}/schemas/integrate.schema.json",
        )
        files[LLVM_PIN] = f"{pin.manifest.revision}\n"
        files[".github/workflows/llvm.yml"] = draw("llvm.yml")
        if stack is not None:
            files[".github/workflows/llvm-wheels.yml"] = draw("llvm-wheels.yml")
    return files


def renovate(pin: Pin, channel: str = "") -> dict[str, Any]:
    """``renovate.json``: the versions to come are those of the simple index, or a channel's, spelled as the pin is.

    Its manager for ``pyproject.toml`` moves the requirements and ``uv.lock``, a manager of our own the tag in URLs.
    Both ask one data source, and their updates are one pull request. Versions compare by PEP 440, in which
    ``20261120.10`` is above ``20261120.09``, and any date above LLVM's versions.

    A release without wheels for one of the project's platforms is passed over.

    :param channel: the pin follows it, by the index of all releases on the pages; empty: the newest that has the wheels
    """
    # Not yanked, each once. JSONata, docs.jsonata.org; the file is PEP 691's.
    version = '$split($, "-")[1]'
    if pin.is_snapshot:  # 20261120.2 -> 20261120.02
        version = f'({version} ~> $split(".")) ~> function($v) {{ $v[0] & "." & $pad($v[1], -2, "0") }}'
    url = f"{pin.folder}/simple/{{{{packageName}}}}/index.json"
    # Files of each version, by their names; of a channel, the shapes of the release that it names.
    before = f"$files := files[yanked = false].filename; $on := function($p) {{ $files[$contains($, $p)].({version}) }}"
    found, on = f"$distinct($files.({version}))", "$ in $on(/{}/)"
    if channel:
        url, row = f"{pin.site}/{INDEX_NAME}", f"releases[tag = $$.channels.`{channel}`]"
        before = f"$row := {row}; $number := $row.wheels ? $row.wheels : 0; $shapes := shapes[$number]"
        found, on = (
            '$row.tag.$substringAfter($, "-")',
            f'$exists($shapes[distribution = "{pin.distributions[0]}" and $contains(tags, /{{}}/)])',
        )
    tags = (rf"{each.system.families[0]}\w*_{each.tag_arch}" for each in pin.platforms)
    everywhere = " and ".join(map(on.format, tags)) or "true"
    config: dict[str, Any] = {
        "$schema": "https://docs.renovatebot.com/renovate-schema.json",
        "extends": ["config:recommended", "helpers:pinGitHubActionDigests"],
        "customDatasources": {
            "mlir": {
                "defaultRegistryUrlTemplate": url,
                "transformTemplates": [f'({before}; {{"releases": [{found}[{everywhere}].{{"version": $}}]}})'],
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
