"""Sound files of all kinds below one folder, made by the factories of the other tests.

::

    forge/     a local forge: a published release, a draft with a waiver, a tag without one, a run
    signed/    a local forge whose release is signed by a made Sigstore, like a mirror's
    mini/      an upstream and a downstream that follows it, with an integrate and its records
    in/        all other files that a command is given
    bin/       the programs that commands find: git, and what a shell script needs
    out/       where commands may write
    home/, tmp/
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.packing import pack
from mlir_release.extras.apidocs import pages
from mlir_release.extras.mlgo.embed import Embedded
from mlir_release.extras.mlgo.features import Decision
from mlir_release.extras.mlgo.training.trace import save_decisions
from mlir_release.ground.console import console
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.llvm_facts import VERSION_FILES
from mlir_release.integrate.deliver.branch import start
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.index.site import SiteOptions
from mlir_release.release.latest.canary_records import record as record_canaries
from mlir_release.release.latest.latest import POINTER_FILE
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    CanaryResult,
    MonthIndex,
    Quality,
    ReleaseQuality,
    Revert,
    make_index,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.provenance.pointer import Pointer
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX
from mlir_release.release.transaction import decisions
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from mlir_release.use.bisect.bisect_record import BisectRecord, Question, ReleaseRun
from tests.binary_factory import mach_o, pe
from tests.extras.unit.mlgo.policy_factory import policy
from tests.extras.unit.mlgo.test_development import LOG
from tests.extras.unit.mlgo.test_evaluate import LESS, SAME, evaluation
from tests.extras.unit.mlgo.test_report import CORPUS, TRACE, TRAINING
from tests.integrate.integration import miniature
from tests.prefix_factory import make_sdk
from tests.project_factory import STABLEHLO, Repository
from tests.release_stage import NOW, WHO, Stage
from tests.revision_factory import LLVM_TREE
from tests.sigstore.instance import REPOSITORY, MadeSigstore, branch_claims, statement_of, workflow_claims
from tests.targets_factory import make_line, make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The tag of the draft, and one without a draft.
DRAFT, BARE = "snapshot-20261121.01", "snapshot-20261122.01"

#: A numbered release, which PyPI may get.
NUMBERED = "llvm-22.1.8.01"

#: An older one, with which a bisect begins.
OLDER = "llvm-22.1.7.01"

RECORD = ".forge.json"

_SEEDS = Path(__file__).parent / "seeds"


def environment(root: Path) -> dict[str, str]:
    """All variables of a command that runs in a world: nothing leads out of it."""
    nowhere = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"
    )
    return {
        "PATH": str(root / "bin"),
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "LANG": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "MLIR_RELEASE_TRUST_CONFIG": str(root / "in" / "trust-config.json"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_NO_INDEX": "1",
        **nowhere,
        **miniature.World(root / "mini", {}, []).environment(),
        "MLIR_RELEASE_CACHE": str(root / "home" / "cache"),
    }


@contextmanager
def _inside(root: Path) -> Iterator[None]:
    """With the world's variables, but with all programs of this machine."""
    before = dict(os.environ)
    os.environ.update(environment(root) | {"PATH": before["PATH"], "HOME": str(root / "home")})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def make_world(root: Path) -> None:
    """Make all of it in ``root``, which does not exist."""
    console.quiet = True
    for name in ("in", "bin", "out", "home", "tmp"):
        (root / name).mkdir(parents=True)
    for program in ("git", "sh", "env", "true", "cat", "sed", "uname", "ar", "ldd"):
        (root / "bin" / program).symlink_to(shutil.which(program) or f"/bin/{program}")
    (root / "bin" / "valgrind").symlink_to("true")
    (root / "in" / "python").symlink_to(sys.executable)
    made = MadeSigstore()
    (root / "in" / "trust-config.json").write_text(json.dumps(made.client_config("http://127.0.0.1:9")))
    (root / "in" / "root.jsonl").write_text(json.dumps(made.trusted_root()) + "\n")
    (root / "in" / "bisect.json").write_bytes(_bisected().to_text())
    revision = _integrate(root)
    _pinned(root)
    with _inside(root):
        _forge(root, revision)
        _set(root, revision)
        _signed(root, made)
        _build(root)
        _pages(root)
    _learn(root / "in")
    shutil.copy(root / "in" / "training.json", root / "out" / "training.json")
    for file in _SEEDS.iterdir():
        if file.is_file():
            shutil.copy(file, root / "in" / file.name)


_CANARY = """
[[canary]]
name = "toy"
repository = "file:///nothing"
ref = "main"
python = "cp311"
commands = ["true"]
"""


def _bisected() -> BisectRecord:
    question = Question(
        repository="local",
        good=OLDER,
        bad=NUMBERED,
        command=("true",),
        folder="/",
        python="3.12.1",
        distribution="mlir",
    )
    run = ReleaseRun(tag=OLDER, answer="skip", seconds=0.5, downloaded=7, why="exit code 125")
    return BisectRecord(question=question, packages=("numpy==2.4.6",), files={"test.py": "0" * 64}, runs=(run,))


def _forge(root: Path, revision: str) -> None:
    """``revision``: of the miniature upstream, which the forge's releases are of."""
    targets = make_targets(
        make_row(),
        make_row("mlir-core", pythons=[PYTHON], required=False),
        pythons=[OTHER_PYTHON, PYTHON],
        upstream=str(root / "mini" / "upstream.git"),
    )
    targets += _CANARY
    files = {"llvm-project.version": f"{revision}\n".encode(), "targets.toml": targets.encode()}
    forge = LocalForge.create(root / "forge", files, clock=lambda: NOW, identity=WHO)
    stage = Stage(forge=forge, dist=root / "dist", matrix=Matrix.parse(targets))
    published = ((TAG, VERSION), (OLDER, "22.1.7"), (NUMBERED, "22.1.8"), (DRAFT, "20261121.1"))
    of = {tag: _numbered(root, version) for tag, version in published if version.startswith("22")}
    for tag, version in (*published, (BARE, "20261122.1")):
        stage.add_tag(tag, version, revision=of.get(tag, revision), draft=tag != BARE)
    for tag, version in published:
        made = stage.fill(tag=tag, version=version, revision=of.get(tag, revision))
        upload(Draft.load(stage.forge, tag), made)
        if tag != DRAFT:
            publish(Draft.load(stage.forge, tag))
    decisions.waive_either(
        stage.forge, DRAFT, target=f"mlir-core-linux-x86_64-{PYTHON}", only=None, reason="why", dry_run=False
    )
    decisions.yank(stage.forge, NUMBERED, "miscompiles", branch="main")
    record_canaries(stage.forge, TAG, [CanaryResult(name="toy", status="passed")], branch="main")
    stage.forge.dispatch("release.yml", ref=DRAFT, inputs={"tag": DRAFT})
    subprocess.run(["git", "-C", str(stage.forge.repository), "pack-refs", "--all"], check=True)
    checkout = root / "in" / "checkout"
    (checkout / ".github" / "workflows").mkdir(parents=True)
    (checkout / "targets.toml").write_text(targets)
    (checkout / "matrices").mkdir()
    (checkout / "matrices" / "22.1.toml").write_text(make_line(make_row(), pythons=[PYTHON]))
    (checkout / "llvm-project.version").write_text(f"{revision}\n")
    (checkout / ".github" / "workflows" / "snapshot.yml").write_text("on: {schedule: [{cron: '5 4 * * *'}]}\n")
    shutil.move(stage.dist / DRAFT, root / "in" / "dist")
    shutil.rmtree(stage.dist)


def _numbered(root: Path, version: str) -> str:
    """A commit of the miniature upstream, on a branch of its own, whose tree is of this version of LLVM."""
    text = "".join(
        f"set(LLVM_VERSION_{part} {number})\n"
        for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    )
    ada, git = Signature(name="Ada", email="ada@example.org", when=NOW), Git(root / "mini" / "upstream.git")
    commit = commit_files(git, None, LLVM_TREE | {VERSION_FILES[0]: text.encode()}, f"Release {version}\n", ada)
    git.run("update-ref", f"refs/heads/release/{version}", commit)
    return commit


def _set(root: Path, revision: str) -> None:
    """A set file: our releases, wheels that name their LLVM, and wheels of a project that pins LLVM."""
    make_wheel(root / "in" / "set", distribution="other-dialect", version="1", description=f"LLVM {revision}")
    make_wheel(root / "in" / "set", distribution="mini", version="2")
    (root / "in" / "set.toml").write_text(
        f'upstream = "{root / "mini" / "upstream.git"}"\n'
        '[[member]]\ndistribution = "mlir"\n'
        '[[member]]\ndistribution = "other-dialect"\nfind-links = "set"\nllvm = "LLVM (.*)"\n'
    )
    Repository(root / "in" / "project.git", {STABLEHLO: f"{revision}\n".encode()})
    (root / "in" / "projects.toml").write_text(
        f'upstream = "{root / "mini" / "upstream.git"}"\n'
        f'[[member]]\ndistribution = "mini"\nfind-links = "set"\npin-of = "{root / "in" / "project.git"}"\n'
        'version = "(?P<number>.*)"\nrefs = ["main", "before:203{number}-01-01"]\n'
        '[[member]]\ndistribution = "mlir"\n'
    )


def _pinned(root: Path) -> None:
    """A project with its pin in a file of Bazel's, and a page of wheels whose versions name commits."""
    folder = root / "in" / "bazel"
    folder.mkdir()
    (folder / "llvm.bzl").write_text(f'LLVM_COMMIT = "{40 * "1"}"\nLLVM_SHA256 = "{64 * "2"}"\n')
    with _inside(root):
        for words in (("init", "-q"), ("add", "llvm.bzl"), ("commit", "-q", "-m", "Begin")):
            miniature.git(folder, *words)
    names = (f"mini_bindings-2026091{day}+{9 * str(day)}-cp312-cp312-linux_x86_64.whl" for day in range(3))
    (root / "in" / "wheels.html").write_text("".join(f'<a href="w/{name}">{name}</a>\n' for name in names))


def _pages(root: Path) -> None:
    """Pages as they were made before, whose state the next run reads; an empty mirror; documents and a channel."""
    forge = LocalForge(root / "forge")
    generate(
        forge,
        root / "out" / "site",
        base_url=(root / "out" / "site").as_uri(),
        options=SiteOptions(sections={"api": pages}, given={"api": True}),
    )
    LocalForge.create(root / "mirror", {"README": b"a mirror\n"}, identity="Mirror <m@example.org>")
    (root / "in" / "docs").mkdir()
    (root / "in" / "docs" / "a.md").write_text("# A\n\n[b](b.md)\n")
    channel = root / "in" / "channels" / "snapshots" / "linux-64"
    channel.mkdir(parents=True)
    (channel / "repodata.json").write_text(json.dumps({"packages.conda": {"a.conda": {"name": "mlir", "size": 1}}}))


def _signed(root: Path, made: MadeSigstore) -> None:
    """What a mirror of a signed release has; and one of its wheels with its bundle, for ``verify FILE``."""
    shutil.copytree(root / "forge", root / "signed", symlinks=True)
    for place in ("drafts", "runs"):
        for path in (root / "signed" / place).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(root / "signed" / "releases" / NUMBERED)
    folder = root / "signed" / "releases" / TAG
    manifest = json.loads((folder / "release.json").read_text())
    manifest |= {"provenance": "required", "repository": f"https://github.com/{REPOSITORY}"}
    (folder / "release.json").write_text(json.dumps(manifest, indent=1))
    signed = [path for path in folder.iterdir() if path.suffix in (".whl", ".json") and path.name != RECORD]
    for path in signed:
        subject = statement_of((path.name, hashlib.sha256(path.read_bytes()).hexdigest()))
        bundle = made.bundle(subject, workflow_claims(TAG, commit=manifest["commit"]))
        path.with_name(path.name + BUNDLE_SUFFIX).write_bytes(bundle)
    record(folder)
    now, digest = datetime.now(UTC), hashlib.sha256((folder / "release.json").read_bytes()).hexdigest()
    url = f"https://github.com/{REPOSITORY}"
    index = make_index([Manifest.from_text((folder / "release.json").read_text(), where=TAG)], repository=url)
    head = parse_index(index[INDEX_NAME])
    revert = Revert(commit="a" * 40, subject="[mlir] x", by="b" * 40, date="2026-11-21T00:00:00Z")
    canary = CanaryResult(name="xdsl", status="failed", commit="c" * 40, seconds=7, url="https://x", said="no")
    learnt = Quality(repository=url, releases={TAG: ReleaseQuality(reverted=(revert,), canaries=(canary,))})
    month = MonthIndex(month="2026-11", releases=head.releases, shapes=head.shapes)
    (root / "in" / INDEX_NAME).write_bytes(index[INDEX_NAME])
    (root / "in" / QUALITY_NAME).write_bytes(to_bytes(learnt))
    (root / "in" / "2026-11.json").write_bytes(to_bytes(month))
    pointer = Pointer(
        repository=url,
        tag=TAG,
        commit=manifest["commit"],
        manifest=digest,
        issued=format_time(now),
        expires=format_time(now + timedelta(days=14)),
        index=hashlib.sha256(index[INDEX_NAME]).hexdigest(),
    )
    bundle = made.bundle(pointer.statement(), branch_claims())
    (root / "in" / POINTER_FILE).write_bytes(bundle)
    forge = LocalForge(root / "signed")
    there, files = forge.head(LATEST_BRANCH), {**index, POINTER_FILE: bundle}
    forge.commit(LATEST_BRANCH, expected=there, files=files, message="Point\n")
    wheel = next(folder.glob(f"*{PYTHON}*.whl"))
    shutil.copy(wheel, root / "in" / "signed-0-py3-none-any.whl")
    subject = statement_of(("signed-0-py3-none-any.whl", hashlib.sha256(wheel.read_bytes()).hexdigest()))
    bundle = made.bundle(subject, workflow_claims(TAG, commit=manifest["commit"]))
    (root / "in" / f"signed-0-py3-none-any.whl{BUNDLE_SUFFIX}").write_bytes(bundle)


def record(folder: Path, only: str = "") -> None:
    """Make the record of a local forge's release name the files that are there, like a forge that lies in all of it.

    :param only: the one file that was changed; empty: all
    """
    path = folder / RECORD
    data = json.loads(path.read_bytes())
    names = [only] if only else [file.name for file in folder.iterdir() if file.name not in (RECORD, "index.html")]
    for name in names:
        content = (folder / name).read_bytes()
        data["assets"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(data))


def _build(root: Path) -> None:
    """An SDK, its archives, a prefix and a source tree; a wheel with programs of three systems in it."""
    into = root / "in"
    build = into / "llvm-build"
    build.mkdir()
    sdk = make_sdk(build)
    assert isinstance(sdk, Sdk)
    pack(sdk, into / "packed")
    binaries = {
        "mlir/_mlir_libs/a.so": Path("/bin/true").read_bytes(),
        "mlir/_mlir_libs/b.dylib": mach_o("@rpath/libMLIR.dylib"),
        "mlir/_mlir_libs/c.pyd": pe("python312.dll"),
        "mlir/ir.py": b'"""IR."""\nfrom ._mlir_libs import x\n\n\ndef f(a: int = 1) -> "int":\n    """Doc `x`."""\n',
        "mlir/ir.pyi": b"class Value:\n    def g(self, x: list[int]) -> None: ...\n",
    }
    wheel = make_wheel(into / "wheels", files=binaries, requires=("numpy>=1.19; python_version > '3.9'",))
    shutil.copy(wheel, into / wheel.name)
    make_report(into / "wheels", wheel)
    shutil.copy("/bin/true", into / "a.so")
    with zipfile.ZipFile(wheel) as archive:
        info = archive.read("mlir/_release.json")
    (into / "release-info.json").write_bytes(info)
    name = f"mlir-{VERSION}"
    members = {
        "PKG-INFO": f"Metadata-Version: 2.4\nName: mlir\nVersion: {VERSION}\nRequires-Python: >=3.10\n".encode(),
        "mlir/_release.json": info.replace(f"linux-x86_64-{PYTHON}".encode(), b"source-linux-x86_64-py3"),
        "pyproject.toml": b'[build-system]\nrequires = ["setuptools"]\n',
    }
    with tarfile.open(into / f"source-{name}.tar.gz", "w:gz") as sources:
        for member, content in members.items():
            entry = tarfile.TarInfo(f"{name}/{member}")
            entry.size = len(content)
            sources.addfile(entry, io.BytesIO(content))


def _learn(into: Path) -> None:
    """A corpus with its trace and decisions, a training, a policy, and an LLVM that says its version and fails."""
    folder = into / "corpus"
    folder.mkdir()
    bitcode = b"BC\xc0\xde"
    digest = hashlib.sha256(bitcode).hexdigest()
    corpus = replace(CORPUS, modules=tuple(replace(module, sha256=digest) for module in CORPUS.modules))
    for module in corpus.modules:
        (folder / module.bitcode).write_bytes(bitcode)
    (folder / "corpus.json").write_text(corpus.to_text())
    (folder / "trace.json").write_text(replace(TRACE, corpus=corpus.digest).to_text())
    rows = np.array([[0.0, 1.0, 0.5, 2.0, 0.0], [1.0, 0.0, 0.5, 2.0, 1.0]])
    save_decisions(folder, [(Decision(np.arange(2), rows), 1)] * 3)
    (into / "training.log").write_bytes(LOG)
    (into / "training.json").write_text(replace(TRAINING, corpus=corpus.digest).to_text())
    (into / "policy.json").write_text(policy([0.5, -1.0, 2.0, 0.0, 1.0]).to_text())
    (into / "evaluation.json").write_bytes(msgspec.json.encode(evaluation(LESS, SAME)))
    files = {"RegAllocEvictModel.o": "5" * 64}
    embedded = Embedded(llvm="22.1.8", policy="1" * 64, corpus="2" * 64, files=files, compared=3, identical=2)
    (into / "embedded.json").write_bytes(msgspec.json.encode(embedded))
    programs = into / "llvm" / "bin"
    programs.mkdir(parents=True)
    for name in ("llc", "clang", "clang++", "llvm-objcopy", "opt", "llvm-lto", "ld.lld"):
        (programs / name).write_text("#!/bin/sh\necho LLVM version 22.1.8\nexit 1\n")
        (programs / name).chmod(0o755)
    build = into / "build"
    build.mkdir()
    command: dict[str, Any] = {"directory": str(build), "file": "a.cpp", "command": "clang -c a.cpp -o a.o"}
    (build / "compile_commands.json").write_text(json.dumps([command]))
    (build / "build.ninja").write_text(
        "rule link\n  command = clang -flto=thin @tool.rsp -Wl,--lto-O3 -o $out\nbuild tool: link a.o\n"
    )
    (build / "tool.rsp").write_text("a.o 'b.o' -Wl,-mllvm,-x=1\n@more.rsp")
    (build / "more.rsp").write_text('"c d.o"')
    for name in ("a.o", "a.o.thinlto.bc", "a.o.3.import.bc", "b.o", "c d.o"):
        (build / name).write_bytes(b"BC\xc0\xde" if name[0] == "a" else b"\x7fELF")


def _integrate(root: Path) -> str:
    """A downstream whose integrate has begun, and the record of one probe; returns a commit of its upstream."""
    with _inside(root):
        world = miniature.build(root / "mini", patched=True, small=True)
        world.reconfigure('["./smoke.sh"]', '["true"]')
        start(world.open())
        cli = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout)]
        subprocess.run(
            [*cli, "probe", world.affecting[0], "--record-to", str(root / "in" / "records" / "one.json")],
            check=True, capture_output=True, cwd=root,
        )  # fmt: skip
        roll = [*cli, "roll", "--record-to", str(root / "in" / "roll.json")]
        subprocess.run(roll, check=True, capture_output=True, cwd=root)
        listed = subprocess.run([*cli, "patches", "list", "--json"], check=True, capture_output=True, cwd=root)
        patch = str(json.loads(listed.stdout)[0]["sha"])
    shutil.copy(root / "mini" / "downstream" / "integrate.toml", root / "in" / "integrate.toml")
    names = {"FIRST": world.affecting[0], "THIRD": world.affecting[2], "PATCH": patch}
    (root / "in" / "commits.json").write_text(json.dumps(names))
    return world.affecting[0]


def digests_of(release: Path, wheel: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest that names a wheel as it is now."""
    content = (release / wheel).read_bytes()
    changed = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    wheels = [row | changed if row["filename"] == wheel else row for row in manifest["wheels"]]
    return {**manifest, "wheels": wheels}
