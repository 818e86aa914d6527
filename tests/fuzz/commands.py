"""All commands, each with sound arguments for a world, and the files that it reads there.

A file is named by a pattern below the world. ``forge@main:targets.toml`` is a file at the head of a forge's branch,
``forge#TAG`` the message of a tag, ``mini%record`` the verdict that the integrate has recorded. In a line, ``FIRST``
and ``THIRD`` are commits of upstream, and ``PATCH`` is one of the downstream's.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tests.fuzz.world import BARE, DRAFT, NUMBERED, OLDER
from tests.wheel_factory import PYTHON, REVISION, TAG

_RECORDS = ("forge/releases/snap*/.forge.json", "forge/drafts/*/.forge.json", "forge/last-number", "forge/runs/*.json")
_TAGS = (f"forge#{TAG}", f"forge#{DRAFT}", f"forge#{BARE}")
_CONFIGURED = (
    "forge@main:targets.toml",
    "forge@main:yanked.toml",
    "forge@main:llvm-project.version",
    "forge/repository.git/HEAD",
)
_STATE = (*_RECORDS, *_TAGS, *_CONFIGURED)
_PUBLISHED = (
    "forge/releases/snap*/release.json",
    f"forge/releases/snap*/*{PYTHON}*.whl",
    "forge/releases/snap*/*.tests.json",
)
_DRAFTED = ("forge/drafts/*/waiver-*.json", "forge/drafts/*/*.whl", "forge/drafts/*/*.tests.json")
_RELEASED = (*_RECORDS, *_CONFIGURED, *_PUBLISHED)
_SIGNED = (
    "signed@latest:latest.sigstore.json",
    "signed@latest:index.json",
    "signed/releases/*/.forge.json",
    "signed/releases/*/release.json",
    "signed/releases/*/*.sigstore.json",
)
_SIGNED_FILE = ("in/signed-0-py3-none-any.whl", "in/signed-0-py3-none-any.whl.sigstore.json", "in/root.jsonl")
_CHECKOUT = ("in/checkout/targets.toml", "in/checkout/llvm-project.version")
_SDK = ("in/llvm-build/sdk/sdk.json", "in/llvm-build/sdk/parts/*", "in/llvm-build/sdk/lib/cmake/*/*.cmake")
_PROJECT = (
    "in/project.git/refs/heads/main",
    "in/project.git/HEAD",
    "in/project.git/config",
    "in/project.git/objects/*/*",
)
_DOWNSTREAM = ("mini/downstream/integrate.toml", "mini%record", "mini/downstream/.gitmodules", "mini/downstream/.git/*")

#: A name of the first target of the forge's matrix, and its signer.
_TARGET = f"mlir-linux-x86_64-{PYTHON}"
_BY = "--signed-by https://github.com/octo/releases --trusted-root in/root.jsonl"
_WHEEL = f"in/mlir-20261120.2-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"
_PREFIX = "in/llvm-build/llvm-22"
_SOURCE = "in/llvm-build/llvm-project"
_IN = "integrate -C mini/downstream"


@dataclass(frozen=True)
class Case:
    """A command line that is right, and what may be malformed for it."""

    line: str
    inputs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()  #: folders that the command changes by its nature, beside ``out`` and ``home``

    @property
    def words(self) -> list[str]:
        """The arguments of ``mlir-release``."""
        return shlex.split(self.line)


def _cases(inputs: tuple[str, ...], *lines: str, writes: tuple[str, ...] = ()) -> tuple[Case, ...]:
    return tuple(Case(line, inputs, writes) for line in lines)


CASES: tuple[Case, ...] = (
    *_cases(_SDK, "rehearsal --workspace out/w --sdk in/llvm-build/sdk --python in/nothing"),
    *_cases(_SDK, "rehearsal --workspace out/w --sdk in/llvm-build/sdk --project clang --profile nothing"),
    *_cases(
        (*_CHECKOUT, "in/checkout/.github/workflows/snapshot.yml"),
        "forge adopt llvm/wheels @llvm/release @ada -C in/checkout",
        writes=("in/checkout",),
    ),
    *_cases(_CHECKOUT, "forge init out/new -C in/checkout", "matrix -C in/checkout --only os=linux"),
    *_cases(("in/checkout/matrices/22.1.toml", *_CHECKOUT), "matrix -C in/checkout --line 22.1"),
    *_cases(
        _CHECKOUT,
        "pin set FIRST -C in/checkout -n",
        "pin check -C in/checkout",
        "pin show -C in/checkout",
        "matrix -C in/checkout --kind tests --github",
    ),
    *_cases(
        _PROJECT,
        "pin set pin-of:./in/project.git -C in/checkout -n",
        "snapshot --forge local:forge -n --policy pin-of:./in/project.git@main#build_tools/llvm_version.txt",
    ),
    *_cases(
        ("in/set.toml", "in/set/*.whl", *_RELEASED),
        "sets lock in/set.toml -o out/set --forge local:forge",
        "sets show in/set.toml --forge local:forge",
    ),
    *_cases(
        ("in/projects.toml", *_PROJECT),
        "sets show in/projects.toml --forge local:forge",
    ),
    *_cases(
        (*_CHECKOUT, "in/checkout/.github/workflows/snapshot.yml"),
        "cost --estimate -C in/checkout",
        "cost --estimate -C in/checkout --abi3",
    ),
    *_cases(
        _STATE,
        "pin show --latest --forge local:forge",
        "tag list --forge local:forge",
        "tag next --forge local:forge",
        "tag next 22.1.8 --forge local:forge",
        f"matrix --tag {TAG} --forge local:forge",
        "snapshot --forge local:forge -n --policy head --only os=linux",
        "release start --version 22.1.8 --forge local:forge -n --only required",
        "release start --version 22.1.8 --forge local:forge -n --only python=cp31*",
        "release list --forge local:forge",
        "release status --forge local:forge",
        "release sweep --forge local:forge -n",
        f"release check-run 000004 {DRAFT} --forge local:forge",
        "cost --forge local:forge",
        "doctor --forge local:forge --no-pypi",
        f"sdk provide {BARE} --forge local:forge -o out/sdk -C in/checkout",
    ),
    *_cases(
        (*_STATE, *_DRAFTED),
        f"matrix --missing {DRAFT} --forge local:forge --kind tests",
        f"release show {DRAFT} --forge local:forge",
        f"release track {DRAFT} --forge local:forge -n",
        f"release fetch {DRAFT} {_TARGET} -o out/fetched --forge local:forge",
        f"publish {DRAFT} --forge local:forge -n",
    ),
    *_cases(
        (*_STATE, *_DRAFTED),
        f"publish {DRAFT} --forge local:forge --manifest-to out/manifest",
        f"publish {DRAFT} --forge local:forge --discard {_TARGET}",
        f"release waive {DRAFT} --only os=linux --reason because --forge local:forge",
        f"release abandon {BARE} --reason because --forge local:forge",
        f"release dispatch release.yml --ref {DRAFT} --input a=b --forge local:forge",
        "release tidy-caches --forge local:forge",
        "release sweep --forge local:forge",
        writes=("forge",),
    ),
    *_cases(
        ("in/dist/*.whl", "in/dist/*.tests.json", *_STATE),
        f"publish {DRAFT} --forge local:forge --dist in/dist -n",
        f"attest {DRAFT} in/dist -o out/bundles --forge local:forge",
    ),
    *_cases(
        _RELEASED,
        f"release show {TAG} --forge local:forge",
        f"verify {TAG} --forge local:forge --provenance skip",
        f"install {TAG} --forge local:forge --python in/python -n --provenance skip",
        "install latest --forge local:forge --python in/python -n",
        "install latest-good --forge local:forge --python in/python -n",
        f"release canaries {TAG} --forge local:forge",
        f"release canaries {TAG} --forge local:forge --github",
        "install --revision before:2027-01-01 --forge local:forge --python in/python -n",
        "release find --revision THIRD --near --forge local:forge",
        f"release find --revision before:2027-01-01 --platform linux-x86_64 --python {PYTHON} --forge local:forge",
        "release reverts --forge local:forge",
        f"conda recipe {TAG} -o out/recipe --forge local:forge",
        "verify latest --forge local:forge --provenance skip",
        f"conda package {TAG} -o out/channels --forge local:forge",
        f"conda publish {TAG} --channel mlir --server http://127.0.0.1:9 --forge local:forge",
        f"downstream init out/project --tag {TAG} --kind extension --name x --index https://example.org/p/ "
        "--forge local:forge",
        f"downstream init out/project --tag {TAG} --kind bundle --name x --smoke true --index "
        "https://example.org/p/ --forge local:forge -n",
        f"wheels rebuild {TAG} {_TARGET} --forge local:forge --sdk in/llvm-build/sdk -o out/rebuilt",
    ),
    *_cases(_RELEASED, f"release yank {TAG} --reason because --forge local:forge", writes=("forge",)),
    *_cases(_RELEASED, "mirror local:forge local:mirror", writes=("mirror",)),
    *_cases(
        (
            *_RELEASED,
            "out/site/state.json",
            "out/site/manifests.json.gz",
            "out/site/*/*/api/made.json",
            "out/site/api-changes.json",
        ),
        "index --forge local:forge -o out/site",
        "index --forge local:forge -o out/site --api --docs in/docs",
        "index --forge local:forge -o out/site --conda in/channels -n",
    ),
    *_cases(
        ("forge/releases/llvm*/*", *_STATE),
        f"pypi {NUMBERED} --forge local:forge --stage out/stage --owner llvm",
        f"pypi {NUMBERED} --forge local:forge --check --owner llvm",
        f"bisect --forge local:forge --python in/python --good {OLDER} --bad {NUMBERED} --state out/bisect -- "
        f"python -c \"from mlir import _release; raise SystemExit(_release.tag != '{OLDER}')\"",
    ),
    *_cases(
        _SIGNED,
        f"verify {TAG} --forge local:signed {_BY}",
        f"release latest --forge local:signed {_BY}",
        f"install {TAG} --forge local:signed --python in/python -n {_BY}",
        f"conda recipe {TAG} -o out/recipe --forge local:signed {_BY}",
    ),
    *_cases(_SIGNED_FILE, f"verify in/signed-0-py3-none-any.whl {_BY} --tag {TAG}"),
    *_cases(("in/channels/snapshots/linux-64/repodata.json",), "conda check in/channels/snapshots --with in/channels"),
    *_cases((_WHEEL,), f"apidocs {_WHEEL} -o out/api", f"wheels inspect {_WHEEL} --files"),
    *_cases((*_RELEASED, _WHEEL), f"release diff {TAG} {_WHEEL} --forge local:forge --markdown out/diff.md"),
    *_cases(
        (
            f"{_PREFIX}/lib/cmake/*/*.cmake",
            f"{_PREFIX}/lib/*.a",
            f"{_SOURCE}/mlir/python/requirements.txt",
            f"{_SOURCE}/mlir/python/CMakeLists.txt",
            f"{_SOURCE}/cmake/Modules/*.cmake",
        ),
        f"sdk import {_PREFIX} --source {_SOURCE} --project mlir -o out/sdk --revision {REVISION} --source-epoch 1",
    ),
    *_cases(
        (f"{_SOURCE}/cmake/Modules/*.cmake", f"{_SOURCE}/mlir/python/*.txt", *_CHECKOUT),
        f"sdk build --source {_SOURCE} --project mlir -o out/sdk --source-epoch 1 -C in/checkout",
    ),
    *_cases(
        _SDK,
        "sdk show in/llvm-build/sdk --verify",
        "sdk pack in/llvm-build/sdk -o out/packed",
        "sdk wheel in/llvm-build/sdk -o out/wheels",
        "wheels stage --sdk in/llvm-build/sdk -o out/staged",
    ),
    *_cases(("in/packed/*",), "sdk unpack in/packed -o out/unpacked"),
    *_cases(
        (*_SDK, *_CHECKOUT),
        "wheels build --sdk in/llvm-build/sdk -o out/built --backend build -C in/checkout --python in/python",
    ),
    *_cases(
        (*_SDK, *_STATE),
        f"wheels build --sdk in/llvm-build/sdk -o out/built --tag {TAG} --forge local:forge -C in/checkout",
    ),
    *_cases(
        (*_SDK, _WHEEL),
        f"wheels test {_WHEEL} --sdk in/llvm-build/sdk --suite smoke --python in/nothing --workdir out/tests",
    ),
    *_cases(("in/build/compile_commands.json",), "mlgo corpus in/build -o out/corpus --llvm in/llvm -j 1"),
    *_cases(
        ("in/build/build.ninja", "in/build/tool.rsp", "in/build/more.rsp", "in/build/a.o*"),
        "mlgo corpus in/build -o out/corpus --llvm in/llvm --thinlto tool -j 1",
    ),
    *_cases(
        ("in/corpus/corpus.json", "in/corpus/trace.json", "in/corpus/decisions.npz"),
        "mlgo trace in/corpus --llvm in/llvm -j 1",
        "mlgo train in/corpus -o out/training --llvm in/llvm --start heuristic -j 1",
        "mlgo clone in/corpus -o out/cloned --llvm in/llvm --ml-compiler-opt in/nothing",
        writes=("in/corpus",),
    ),
    *_cases(
        ("out/training.json", "in/corpus/*"),
        "mlgo train in/corpus -o out --llvm in/llvm --seed 7 --pairs 3 -j 1",
        writes=("in/corpus",),
    ),
    *_cases(("in/policy.json", "in/llvm/bin/*"), "mlgo embed in/policy.json -o out/embedded --llvm in/llvm"),
    *_cases(("in/llvm/bin/*",), f"mlgo development -o out --llvm in/llvm --source {_SOURCE} --tflite in/llvm"),
    *_cases(
        ("in/policy.json", "in/corpus/corpus.json"),
        f"mlgo embed in/policy.json -o out --llvm in/llvm --source {_SOURCE} --program clang --check in/corpus",
    ),
    *_cases(
        ("in/policy.json", "in/corpus/corpus.json", "in/programs.toml"),
        "mlgo evaluate in/corpus --policy in/policy.json --llvm in/llvm --programs in/programs.toml -j 1",
    ),
    *_cases(
        ("in/corpus/*.json", "in/training.json", "in/evaluation.json", "in/embedded.json"),
        "mlgo report in/corpus --training in/training.json --evaluation in/evaluation.json "
        "--embedded in/embedded.json -o out/report",
    ),
    *_cases(
        _DOWNSTREAM,
        f"{_IN} bisect branch --good main~1 --bad main -- true",
        f"{_IN} bisect branch --good main~1 --bad main --no-upstream --push -- test ! -e app.c",
        f"{_IN} bisect upstream --good FIRST --bad THIRD -- true",
        f"{_IN} bisect upstream --good FIRST --bad THIRD --at main --without PATCH --again --push -- false",
        f"{_IN} export",
        f"{_IN} fix",
        f"{_IN} fix --continue",
        f"{_IN} land",
        f"{_IN} land --at HEAD",
        f"{_IN} next",
        f"{_IN} page",
        f"{_IN} patches add THIRD --why because",
        f"{_IN} patches drop PATCH",
        f"{_IN} patches explain PATCH",
        f"{_IN} patches list",
        f"{_IN} plan",
        f"{_IN} plan --roll",
        f"{_IN} probe THIRD --record-to out/record.json",
        f"{_IN} probe THIRD --attempts 3",
        f"{_IN} range FIRST THIRD",
        f"{_IN} roll --record-to out/roll.json",
        f"{_IN} run --no-probes",
        f"{_IN} run --no-probes --roll",
        f"{_IN} start",
        f"{_IN} start --roll",
        f"{_IN} stats",
        f"{_IN} status --no-fetch",
        f"{_IN} sync",
        writes=("mini",),
    ),
    *_cases(
        (*_DOWNSTREAM, *_PROJECT),
        f"{_IN} plan --align pin-of:./in/project.git@main#build_tools/llvm_version.txt",
        f"{_IN} patches add THIRD --why because --until-dependency third_party/llvm",
        f"{_IN} --upstream LLVM status --no-fetch",
        writes=("mini",),
    ),
    *_cases((*_DOWNSTREAM, "in/build.log"), f"{_IN} report --log in/build.log", writes=("mini",)),
    *_cases(("in/records/*.json", *_DOWNSTREAM), f"{_IN} gather in/records", writes=("mini",)),
    *_cases(("in/bazel/.git/HEAD", "in/bazel/.git/objects/*/*"), "integrate -C in/bazel init --print"),
    *_cases(("in/roll.json",), "integrate roll --from in/roll.json"),
)
