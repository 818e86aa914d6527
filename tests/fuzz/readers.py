"""The functions that read what others wrote: each takes a file, and returns or raises an error of ours."""

from __future__ import annotations

import io
import json
import random
import signal
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pypi_attestations import ConversionError
from sigstore.models import InvalidBundle

from mlir_release.builder.model.regalloc_model import ModelDescription
from mlir_release.builder.model.sdk_wheel_info import SdkWheelInfo
from mlir_release.builder.model.test_report import TestReport
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir.cmake_exports import read as read_exports
from mlir_release.builder.projects.mlir.suites.builds import requirements_of
from mlir_release.builder.sdk.elf import read_elf
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.packing import unpack
from mlir_release.builder.testing.known_failures import load as load_known_failures
from mlir_release.builder.wheels.compare import compare
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.extras.apidocs.history import parse_history
from mlir_release.extras.apidocs.published import ApiSection
from mlir_release.extras.apidocs.read import read_wheel as read_sources
from mlir_release.extras.mlgo.corpora.corpus import load_corpus, read_commands
from mlir_release.extras.mlgo.corpora.response_files import expand
from mlir_release.extras.mlgo.documents import Trace, Training
from mlir_release.extras.mlgo.evaluate import Evaluation, load_policy
from mlir_release.extras.mlgo.instructions import load_programs
from mlir_release.extras.mlgo.problems import EVICTION
from mlir_release.extras.mlgo.report import load_result
from mlir_release.extras.mlgo.training.development import replay
from mlir_release.extras.mlgo.training.trace import load_decisions
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.hosting import Issue
from mlir_release.ground.llvm.pin import parse_pin
from mlir_release.integrate.config import read_config
from mlir_release.integrate.pins.pins import find
from mlir_release.integrate.pins.releases import versions_on
from mlir_release.integrate.report import findings_in
from mlir_release.integrate.state import Record
from mlir_release.integrate.walk.roll import read_state
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index import observe
from mlir_release.release.judging.status import read_record
from mlir_release.release.model.canaries import parse_records
from mlir_release.release.model.manifest import Manifest, Waiver
from mlir_release.release.model.release_index import parse_index, parse_month, parse_quality
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.model.yanks import parse_yanks
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.pointer import claimed_repository, pointer_policy, verify_pointer
from mlir_release.release.provenance.policy import SignerPolicy
from mlir_release.release.provenance.trust import load_trust, signing_config
from mlir_release.release.provenance.verify import publish_provenance, verify_file
from mlir_release.release.pypi.project import publishers
from mlir_release.release.transaction.assets import read_built
from mlir_release.use.bisect.bisect_record import BisectRecord
from tests.fuzz import sandbox
from tests.fuzz.mutation import mutate
from tests.fuzz.world import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

#: What a reader may say.
ALLOWED = (ReleaseError, MalformedError)

#: Seconds for one file.
SECONDS = 20.0


@dataclass(frozen=True)
class Reader:
    """``read`` gets the path of the file that ``seed``, a pattern below a world, names."""

    name: str
    seed: str
    read: Callable[[Path], object]
    also: tuple[type[Exception], ...] = ()  #: that it may raise besides, as its caller expects


def _content(read: Callable[[bytes], object]) -> Callable[[Path], object]:
    return lambda path: read(path.read_bytes())


def _text(read: Callable[[str], object]) -> Callable[[Path], object]:
    return lambda path: read(path.read_bytes().decode("utf-8", "replace"))


def _manifest(content: bytes) -> object:
    return Manifest.from_text(content, where="x").to_text()


def _report(path: Path) -> object:
    return TestReport.from_text(path.read_bytes(), name=path.name, where="x")


def _config(path: Path) -> object:
    return signing_config({"MLIR_RELEASE_TRUST_CONFIG": str(path)})


def _issue(text: str) -> None:
    body = f"<!-- mlir-release-track: {text} -->\n{text}"
    read_record(Issue(number=1, key="snapshot/a", title=text, body=body, url=""))


def _forge(path: Path) -> object:
    root = next(folder for folder in path.parents if (folder / "repository.git").is_dir())
    forge = LocalForge(root)
    return [*forge.releases(), *forge.runs("release.yml", ref="main")]


def _sdk(path: Path) -> None:
    Sdk.load(path.parent).verify()


def _sdk_list(path: Path) -> None:
    Sdk.load(path.parents[1]).verify()


def _unpacked(path: Path) -> object:
    return unpack([path], path.parents[2] / "out" / "reader")


def _bundle(path: Path) -> object:
    content = path.read_bytes()
    is_about(content, "0" * 64)
    trust = load_trust(path.with_name("root.jsonl"))
    wheel = path.with_name(path.name.removesuffix(".sigstore.json"))
    return verify_file(wheel, content, SignerPolicy(repository="https://github.com/octo/releases"), trust)


def _trace(path: Path) -> Trace:
    return Trace.from_text(path.with_name(Trace.FILE).read_bytes(), where="x")


def _pointer(path: Path) -> object:
    content = path.read_bytes()
    policy = pointer_policy(claimed_repository(content), "main")
    return verify_pointer(content, policy, load_trust(path.with_name("root.jsonl")))


def _compared(path: Path) -> object:
    return compare(path, path.parent / "wheels" / path.name)


def _tag(text: str) -> object:
    return [parse_tag(line) for line in text.splitlines()]


_WHEEL = "in/mlir-*.whl"

READERS: tuple[Reader, ...] = (
    Reader("manifest", "forge/releases/snap*/release.json", _content(_manifest)),
    Reader("bisect record", "in/bisect.json", _content(BisectRecord.from_text)),
    Reader("waiver", "forge/drafts/*/waiver-*.json", _content(lambda b: Waiver.from_text(b, where="x"))),
    Reader(
        "test report",
        "in/dist/*.tests.json",
        _report,
    ),
    Reader("wheel info", "in/release-info.json", _content(WheelInfo.from_text)),
    Reader("sdk wheel info", "in/sdk-wheel.json", _content(SdkWheelInfo.from_text)),
    Reader("model description", "in/model.json", _content(ModelDescription.from_text)),
    Reader("targets", "in/checkout/targets.toml", lambda path: matrix_of_checkout(path.parent)),
    Reader("release line", "in/checkout/matrices/22.1.toml", lambda path: matrix_of_checkout(path.parents[1], "22.1")),
    Reader("yanks", "in/yanked.toml", _text(parse_yanks)),
    Reader("canaries", "in/canaries.json", _content(parse_records)),
    Reader("pin", "in/checkout/llvm-project.version", _content(lambda b: parse_pin(b, where="x"))),
    Reader("tags", "in/tags.txt", _text(_tag)),
    Reader("trailers", "in/trailers.txt", _text(parse_trailers)),
    Reader("integrate configuration", "in/integrate.toml", _content(lambda b: read_config(b, where="x"))),
    Reader("pin among text", "in/bazel/llvm.bzl", _text(lambda text: find(text, '^LLVM_COMMIT = "(.*)"', "x"))),
    Reader("page of wheels", "in/wheels.html", _content(lambda b: versions_on(b, "mini-bindings"))),
    Reader("integrate record", "in/records/one.json", _content(lambda b: from_json(b, Record))),
    Reader("roller's state", "in/roll.json", read_state),
    Reader("build log", "in/build.log", _content(findings_in)),
    Reader("issue", "in/records/one.json", _text(_issue)),
    Reader("known failures", "in/known_failures.toml", load_known_failures.__wrapped__),
    Reader("forge record", "forge/releases/snap*/.forge.json", _forge),
    Reader("forge draft", "forge/drafts/*/.forge.json", _forge),
    Reader("forge run", "forge/runs/*.json", _forge),
    Reader("sdk", "in/llvm-build/sdk/sdk.json", _sdk),
    Reader("sdk list", "in/llvm-build/sdk/parts/tools*", _sdk_list),
    Reader("sdk archive", "in/packed/tools.tar.zst", _unpacked),
    Reader("cmake exports", "in/llvm-build/llvm-22/lib/cmake/mlir/MLIRTargets.cmake", read_exports),
    Reader("elf", "in/a.so", _content(lambda b: read_elf(io.BytesIO(b)))),
    Reader("wheel, built", "in/dist/*.whl", read_built),
    Reader("wheel, inspected", _WHEEL, lambda path: inspect(path, ask_auditwheel=False)),
    Reader("wheel, documented", _WHEEL, read_sources),
    Reader("wheel, compared", _WHEEL, _compared),
    Reader("source distribution", "in/source-mlir-*.tar.gz", read_built),
    Reader("source distribution, needs", "in/source-mlir-*.tar.gz", requirements_of),
    Reader("bundle", "in/signed-*.sigstore.json", _bundle),
    Reader(
        "bundle, as provenance",
        "in/signed-*.sigstore.json",
        _content(publish_provenance),
        (InvalidBundle, ConversionError),
    ),
    Reader("provenance on an index", "in/provenance.json", _content(publishers)),
    Reader("pointer", "in/latest.sigstore.json", _pointer),
    Reader("index", "in/index.json", _content(parse_index)),
    Reader("index of a month", "in/2026-11.json", _content(parse_month)),
    Reader("quality", "in/quality.json", _content(parse_quality)),
    Reader("trusted root", "in/root.jsonl", load_trust),
    Reader(
        "trust configuration",
        "in/trust-config.json",
        _config,
    ),
    Reader("archive of manifests", "out/site/manifests.json.gz", _content(lambda b: observe.unpack(b, "x"))),
    Reader("section of the API", "in/made.json", _content(ApiSection.parse)),
    Reader("changes of the API", "in/api-changes.json", _content(parse_history)),
    Reader("corpus", "in/corpus/corpus.json", lambda path: load_corpus(path.parent)),
    Reader("trace", "in/corpus/trace.json", _content(lambda b: Trace.from_text(b, where="x"))),
    Reader("decisions", "in/corpus/decisions.npz", lambda path: load_decisions(path.parent, _trace(path))),
    Reader("training log", "in/training.log", lambda path: replay(path, EVICTION, lambda layout: lambda decision: 0)),
    Reader("training", "in/training.json", _content(lambda b: Training.from_text(b, where="x").policy().digest)),
    Reader("policy", "in/policy.json", load_policy),
    Reader("programs", "in/programs.toml", load_programs),
    Reader("results", "in/evaluation.json", lambda path: load_result(path, Evaluation)),
    Reader("compile commands", "in/build/compile_commands.json", read_commands),
    Reader("response file", "in/build/tool.rsp", lambda path: expand([f"@{path.name}"], path.parent)),
)


def seed_of(reader: Reader, world: Path) -> Path:
    """The sound file of a reader in a world."""
    return sorted(world.glob(reader.seed))[0]


def attempt(reader: Reader, path: Path) -> str | None:
    """Read; the traceback of an exception that is none of ours, or None."""
    expected: tuple[type[Exception], ...] = (*ALLOWED, *reader.also)
    try:
        reader.read(path)
    except expected:
        return None
    except Exception:
        return traceback.format_exc()
    return None


def run(
    reader: Reader, world: Path, log: Path, *, seed: int, numbers: Sequence[int]
) -> Iterator[tuple[int, sandbox.End]]:
    """The tries that ended as none may: a child process makes all of them, and another goes on after one that died."""
    path = seed_of(reader, world)
    sound = path.read_bytes()

    def read_all(numbers: Sequence[int]) -> int:
        for number in numbers:
            print(json.dumps(number), flush=True)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            path.write_bytes(mutate(sound, path.name, random.Random(f"{seed}:{reader.name}:{number}")))
            if (said := attempt(reader, path)) is not None:
                print(json.dumps(said), flush=True)
        return 0

    waiting = list(numbers)
    while waiting:
        end = sandbox.run(
            partial(read_all, waiting), log=log, cwd=world, environment=environment(world), seconds=SECONDS
        )
        path.write_bytes(sound)
        last = waiting[0]
        for line in end.stdout.splitlines():
            if line.isdecimal():
                last = int(line)
            elif line.startswith('"'):
                yield last, sandbox.End(1, "", json.loads(line))
        waiting = waiting[waiting.index(last) + 1 :]
        if end.code:
            yield last, end
