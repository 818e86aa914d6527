"""Which release a machine can have an SDK of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.builder.model.orders import SdkOrder
from mlir_release.builder.sdk import provision
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.progress import BudgetSpent
from mlir_release.builder.sdk.provision import adopt_sdk, available_releases, code_digest, provide_pinned, provide_sdk
from mlir_release.builder.sdk.sources.releases import LlvmRelease, read_catalogue
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.cli.app import app
from mlir_release.ground.llvm.upstream import Revision
from mlir_release.release.model.matrix import Matrix
from tests.builder.pretence import have_debian, have_no_forge, list_packages
from tests.prefix_factory import VERSION, make_prefix, make_sdk, make_source
from tests.refusals import check_error, refused
from tests.release.unit.model.test_targets import with_assertions

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.build import BuildTree
    from mlir_release.builder.sdk.components import SdkSpec

NEW = "97.1.4"


@pytest.fixture(autouse=True)
def distribution(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with packages of two versions. No upstream can be reached, and no pool has sources."""
    folder = tmp_path_factory.mktemp("debian")
    have_debian(folder, monkeypatch)
    packages = {97: NEW, 22: VERSION}.items()
    list_packages(folder, "\n".join(f"Package: libmlir-{major}-dev\nVersion: 1:{text}-1\n" for major, text in packages))
    return folder


def first(**options: Any) -> LlvmRelease:
    return next(available_releases(**options))[0]


def test_the_newest_release_is_taken_that_the_catalogue_need_not_know(tmp_path: Path) -> None:
    tree = make_source(tmp_path / "sources" / f"llvm-{NEW}-kept", version=NEW)
    release = first(cache=tmp_path)
    assert (release.version, release.commit) == (NEW, "")
    assert release.epoch == int((tree / "cmake" / "Modules" / "LLVMVersion.cmake").stat().st_mtime)


def test_the_next_release_is_taken_where_the_newest_has_no_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_source(tmp_path / "sources" / f"llvm-{VERSION}-kept")
    release = first(cache=tmp_path)
    assert release in read_catalogue()
    assert release.version == VERSION
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "packages here, but no sources" in line]
    assert NEW in line
    assert "it has no such source package" in line


def test_where_no_release_has_sources_each_is_named_with_the_reason(tmp_path: Path) -> None:
    said = "this distribution has packages of LLVM, but the sources of none of them can be had"
    error = refused(lambda: first(cache=tmp_path), "sources-unavailable", said)
    assert f"LLVM {NEW}: " in error.why
    assert f"LLVM {VERSION}: " in error.why


def test_a_version_that_was_asked_for_has_no_substitute(tmp_path: Path) -> None:
    make_source(tmp_path / "sources" / f"llvm-{VERSION}-kept")
    refused(lambda: first(cache=tmp_path, version=NEW), "sources-unavailable", "are not available")


def test_an_installed_llvm_and_a_source_folder_are_believed(tmp_path: Path, distribution: Path) -> None:
    list_packages(distribution, "")
    prefix = make_prefix(tmp_path / "llvm-97", version="97.1.2")
    source = make_source(tmp_path / "llvm-project", version="97.1.2")
    assert first(cache=tmp_path, prefix=prefix, source=source).version == "97.1.2"


def test_options_that_name_different_versions_are_refused(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "llvm-97", version="97.1.2")
    source = make_source(tmp_path / "llvm-project", version="97.1.3")
    said = "the options name different versions of LLVM"
    error = refused(lambda: first(cache=tmp_path, prefix=prefix, source=source), "option-invalid", said)
    assert error.why == "--prefix: 97.1.2, --source: 97.1.3"


def test_without_anything_at_hand_the_newest_of_the_catalogue_is_built(tmp_path: Path, distribution: Path) -> None:
    list_packages(distribution, "")
    newest = read_catalogue()[-1]
    make_source(tmp_path / "sources" / newest.commit, version=newest.version, whole=True)
    assert first(cache=tmp_path) == newest


@pytest.fixture
def made(tmp_path: Path) -> Sdk:
    return make_sdk(tmp_path, revision="a" * 40)


def test_an_sdk_made_before_is_recorded_with_another_commit(tmp_path: Path, made: Sdk) -> None:
    adopted = adopt_sdk(made, revision="b" * 40, source_epoch=2, cache=tmp_path / "cache")
    adopted.verify()
    assert (adopted.info.revision, adopted.info.source_epoch) == ("b" * 40, 2)
    assert adopted.info.digest == made.info.digest
    assert Sdk.load(made.root) == made, "the other one is unchanged"
    assert adopted.root.joinpath("lib", "libMLIRIR.a").samefile(made.root / "lib" / "libMLIRIR.a")
    assert adopt_sdk(made, revision="b" * 40, source_epoch=2, cache=tmp_path / "cache") == adopted
    assert adopt_sdk(adopted, revision="b" * 40, source_epoch=2, cache=tmp_path / "cache") is adopted


def test_an_sdk_is_the_release_that_it_was_made_of(tmp_path: Path, made: Sdk) -> None:
    assert first(cache=tmp_path, prefix=made.root, source=made.root / "source").version == VERSION


def instead(monkeypatch: pytest.MonkeyPatch, **steps: object) -> None:
    """Have these steps, which take an hour or another machine, do something else."""
    for name, step in steps.items():
        monkeypatch.setattr(provision, name, step)


def test_from_source_llvm_is_built_once_for_all_commits_that_represent_it(
    tmp_path: Path, made: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, str]] = []

    def build_sdk(tree: BuildTree, *, revision: str) -> Sdk:
        built.append((tree.spec.floor, revision))
        return made.copy_to(tree.output)

    instead(monkeypatch, build_sdk=build_sdk)
    source = make_source(tmp_path / "whole", whole=True)
    release = next(one for one in read_catalogue() if one.version == VERSION)
    for number in (1, 2):
        represents = LlvmRelease(commit=f"{number}" * 40, epoch=number)
        sdk = provide_sdk(release, represents, cache=tmp_path, source=source, from_source=True)
        assert (sdk.info.revision, sdk.info.source_epoch) == (f"{number}" * 40, number)
    assert built == [("", "1" * 40)]


@pytest.fixture
def made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each SDK is made of, which is not made: the distribution's packages, with a glibc of 2.36, or sources."""
    revision = Revision(sha="a" * 40, epoch=1, subject="", represents=VERSION, facts=lambda: pytest.fail("not needed"))
    tree = read_source(make_source(tmp_path / "whole", whole=True))
    made: list[str] = []

    def prepare(_: Path, spec: SdkSpec, *, output: Path, **__: object) -> None:
        made.append(f"{spec.configuration}, {spec.code_generators} in {output.name}")

    instead(
        monkeypatch,
        is_too_new=lambda floor: floor == "manylinux_2_28",
        fetch_source=lambda *_, **__: tree,
        provide_sdk=lambda *_, **__: made.append("of packages"),
        prepare=prepare,
        build_sdk=lambda *_, **__: None,
        Upstream=lambda url: SimpleNamespace(resolve=lambda sha: revision),
    )
    return made


def test_an_sdk_with_all_code_generators_is_compiled_with_them_or_is_of_packages_which_have_them(
    made_of: list[str], tmp_path: Path
) -> None:
    for floor in ("manylinux_2_28", "manylinux_2_36"):
        order = SdkOrder(revision="a" * 40, upstream="u", floor=floor, code_generators="all")
        provide_pinned(order, cache=tmp_path)
    assert made_of == [f"release, ('all',) in {'a' * 40}-manylinux_2_28-{code_digest()[:12]}-all", "of packages"]


def test_packages_are_never_taken_for_an_sdk_with_assertions(made_of: list[str], tmp_path: Path) -> None:
    """The distribution has this very release, but compiled without them."""
    matrix = Matrix.parse(with_assertions())
    for runtime in matrix.runtimes:
        order = runtime.order(matrix.release, "a" * 40)
        provide_pinned(structs.replace(order, floor="manylinux_2_36"), cache=tmp_path)
    assert made_of == [
        "of packages",
        f"release+asserts, None in {'a' * 40}-manylinux_2_36-{code_digest()[:12]}-asserts",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"revision":"main","upstream":"u","floor":"f"}', '{"revision":"' + "a" * 40 + '"}']
)
def test_an_sdk_is_not_made_of_an_order_that_is_none(text: str, tmp_path: Path) -> None:
    """A revision is a commit's id: what upstream's git gives for it can be no other."""
    done = CliRunner().invoke(app, ["sdk", "provide", "--order", text, "-o", str(tmp_path)], standalone_mode=False)
    check_error(done.exception, "option-invalid", "the orders of the job can't be read")


def test_an_ordered_sdk_asks_no_forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SdkOrder] = []

    def provide(order: SdkOrder, **_: Any) -> Sdk:
        asked.append(order)
        raise BudgetSpent("interrupted", "no time")

    have_no_forge(monkeypatch)
    instead(monkeypatch, provide_pinned=provide)
    order = SdkOrder(revision="a" * 40, upstream="https://example.org/llvm.git", floor="manylinux_2_28")
    words = ["sdk", "provide", "--order", msgspec.json.encode(order).decode(), "-o", str(tmp_path), "-C", str(tmp_path)]
    assert not CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False).exception
    assert asked == [order]
