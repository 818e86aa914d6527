"""Which upstream commits a downstream has reason to fear: by the files that it includes, TableGen sources as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.trees import commit_files
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.upstream import UpstreamCommit
from mlir_release.integrate.walk.risk import included_in, weigher
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import integrate
from tests.integrate.integration.miniature import WHO

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World


#: As real downstreams include what StableHLO and LLVM make.
SOURCES = """#include "foo/dialect/FooOps.h"
#include <mlir/Bar/BarOpsDialect.h.inc>
  #  include "foo/transforms/Passes.h"
#include "mlir/Baz/Baz.cpp.inc"
#include "../Own.h"
#include "./Near.h"
// #include "Not.h"
"""

INCLUDED = {
    "foo/dialect/FooOps.h": True,
    "foo/dialect/FooOps.td": True,
    "include/foo/dialect/FooOps.td": True,
    "mlir/include/mlir/Bar/BarOps.td": True,
    "mlir/include/mlir/Bar/BarOpsDialect.td": True,
    "mlir/include/mlir/Baz/Baz.td": True,
    "foo/transforms/Passes.td": True,
    "foo/conversions/linalg/transforms/Passes.td": False,
    "foo/conversions/linalg/transforms/Passes.h": False,
    "lib/Own.h": True,
    "Near.td": True,
    "Not.h": False,
    "foo/dialect/FooOps.cpp": False,
    "otherfoo/dialect/FooOps.h": True,  # by "dialect/FooOps.h", which a .td includes
    "docs/FooOps.md": False,
    "": False,
}


@pytest.fixture
def downstream(make_world: Any) -> World:
    """One that includes headers of a dialect, and a TableGen file."""
    world: World = make_world()
    (world.checkout / "lib.cpp").write_text(SOURCES)
    (world.checkout / "ours.td").write_text('include "dialect/FooOps.h"\n')
    world.git("add", ".")
    world.git("commit", "-q", "-m", "Include")
    return world


def test_a_file_is_included_by_the_end_of_its_path_and_tablegens_by_what_is_made_of_it(downstream: World) -> None:
    included = included_in(downstream.open())
    assert {path: included(path) for path in INCLUDED} == INCLUDED


def test_what_an_included_header_includes_is_followed_to_its_source_as_cmake_says(downstream: World) -> None:
    project = downstream.open()
    inside = "mlir/Dialect/Arith/IR"
    folder = f"mlir/include/{inside}"
    made = {
        f"{folder}/Arith.h": f'#include "{inside}/ArithOps.h.inc"\n#include "{inside}/E.inc"\n'.encode(),
        f"{folder}/CMakeLists.txt": b"set(LLVM_TARGET_DEFINITIONS ../Shared.td)\nmlir_tablegen(E.inc -gen-enum-decls)\n"
        b"set(LLVM_TARGET_DEFINITIONS Other.td)\nmlir_tablegen(Other.h.inc -gen-op-decls)\n",
    }
    head = commit_files(project.upstream, project.upstream.fetch(), made, "Arith\n", WHO)
    project.upstream.run("update-ref", project.upstream.ref, head)
    (downstream.checkout / "lib.cpp").write_text('#include "mlir/Dialect/Arith/IR/Arith.h"\n')
    downstream.git("commit", "-qam", "Include Arith")
    included = included_in(downstream.open())
    assert included(f"{folder}/ArithOps.td")
    assert included("mlir/include/mlir/Dialect/Arith/Shared.td")
    assert not included(f"{folder}/Other.td")


def test_a_downstream_that_includes_nothing_fears_all_commits_alike(plain: World) -> None:
    plain.git("rm", "-q", "app.c")
    plain.git("commit", "-q", "-m", "Only text")
    project = plain.open()
    assert not included_in(project)("mlir/api.h")
    commits = [UpstreamCommit(sha, "", "") for sha in plain.affecting[:3]]
    assert weigher(project)(commits) == [1.0] * 3


@pytest.fixture
def tablegen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An upstream that changes an operation in a TableGen file, among other commits."""
    root = tmp_path / "world"
    up = miniature.begin(root, patched=False)
    base = up.previous
    up.filler(2, others=0)
    up.commit("[mlir] Rename an operand", {"mlir/api.td": "let arguments = (ins I64:$dim);\n"}, name="operand")
    up.filler(2, others=0)
    world = miniature.finish(root, up, base, carrier="pin-file", patched=False)
    world.enter(monkeypatch)
    world.reconfigure('["./smoke.sh"]', """["sh", "-c", "! grep dim $MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.td"]""")
    start(world.open())
    return world


def test_the_commit_that_changes_a_tablegen_file_is_feared_most_and_shown(tablegen: World) -> None:
    project = tablegen.open()
    ahead = project.upstream.affecting(project.pin(), project.upstream.head())
    factors = weigher(project)(ahead)
    assert ahead[factors.index(max(factors))].sha == tablegen.commits["operand"]
    assert sorted(factors)[-2] < max(factors)
    assert integrate(tablegen, "run")["code"] != 0
    fix = integrate(tablegen, "fix")
    assert (fix["code"], fix["bad"], fix["files"]) == (0, tablegen.commits["operand"], ["mlir/api.td"])
    assert "+let arguments = (ins I64:$dim);" in fix["diff"]
