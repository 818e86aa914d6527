"""Instructions of a real program, counted by callgrind, with a corpus' modules in it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.embed import asked
from mlir_release.extras.mlgo.evaluate import Evaluation, evaluate
from mlir_release.extras.mlgo.features import EvictionLayout
from mlir_release.extras.mlgo.instructions import Counter
from mlir_release.extras.mlgo.toolchain import Toolchain
from tests.extras.unit.mlgo.policy_factory import policy
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path


#: Calls a function of each module with a number of turns that it is given.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
{declared}
int main(int count, char **words) {{
  long long memory[32] = {{1, 2, 3}}, turns = atoi(words[1]);
  printf("%lld %s\\n", {called}, {said});
  return getchar() == 'x';
}}
"""


#: Calls a function of a library: both are said from outside, the function by a variable.
USER = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW);
  int (*called)(int, char **) = (int (*)(int, char **))dlsym(library, getenv("LIBRARY_HAS"));
  return called(count - 1, words + 1);
}
"""


def write_programs(folder: Path, *, said: str = '""', function: str = "m{}_7", **changed: Any) -> Path:
    """A program of all modules, with five runs. :param function: its name in a module"""
    functions = [function.format(index) for index in range(5)]
    declared = "\n".join(f"long long {name}(long long *, long long);" for name in functions)
    called = " ^ ".join(f"{name}(memory, turns)" for name in functions)
    (folder / "main.c").write_text(MAIN.format(declared=declared, called=called, said=said))
    (folder / "input").write_text("a line\n")
    runs = [{"name": f"{turns} turns", "arguments": [str(turns)], "input": "input"} for turns in (50, 60, 70, 80, 90)]
    link = ["{llvm}/bin/clang", "main.c", "{modules}", "-o", "{program}"]
    found = {"name": "main", "link": link, "runs": runs} | changed
    (folder / "programs.toml").write_text(tomli_w.dumps({"program": [found]}))
    return folder / "programs.toml"


def evaluated(corpus: Path, clang: Path, programs: Path, *, nothing: float = 0.0) -> Evaluation:
    """Of a policy that takes what is lightest. :param nothing: 1: it never evicts"""
    toolchain, loaded = Toolchain(clang), load_corpus(corpus)
    features = EvictionLayout(asked(toolchain)).features
    weights = {"is_free": 2.0, "use_def_density": -1.0, "evicts_nothing": 9 * nothing}
    given = policy(
        [weights.get(name, 0.0) for name in features],
        features=features, mean=(0.0,) * len(features), deviation=(1.0,) * len(features),
    )  # fmt: skip
    compiler = Compiler(toolchain, loaded, corpus)
    return evaluate(given, loaded.modules, compiler, seed=1, counter=Counter(programs, toolchain))


@pytest.mark.usefixtures("_valgrind")
def test_a_policy_that_never_evicts_executes_more(corpus: Path, clang: Path, tmp_path: Path) -> None:
    """The measure sees a bad policy, and counts the same each time."""
    programs = write_programs(tmp_path)
    found = evaluated(corpus, clang, programs, nothing=1)
    assert [run.run for run in found.runs] == [f"{turns} turns" for turns in (50, 60, 70, 80, 90)]
    assert all(run.policy > run.default > 50_000 for run in found.runs)
    assert found.instructions is not None
    assert found.instructions.worse
    assert found.runs == evaluated(corpus, clang, programs, nothing=1).runs


@pytest.mark.usefixtures("_valgrind")
def test_a_library_is_counted_in_the_program_that_uses_it(corpus: Path, clang: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    (tmp_path / "user.c").write_text(USER)
    subprocess.run([clang / "bin" / "clang", tmp_path / "user.c", "-o", user], check=True)
    link = ["{llvm}/bin/clang", "-shared", "-fPIC", "main.c", "{modules}", "-o", "{program}"]
    given: dict[str, Any] = {"link": link, "command": [str(user), "{program}"], "environment": {"LIBRARY_HAS": "main"}}
    found = evaluated(corpus, clang, write_programs(tmp_path, **given), nothing=1)
    assert len(found.runs) == 5
    assert all(run.policy > run.default > 50_000 for run in found.runs)


@pytest.mark.usefixtures("_valgrind")
@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"link": ["{llvm}/bin/clang", "gone.c", "-o", "{program}"]}, "gone.c"),
        ({"link": ["true"]}, "callgrind"),
    ],
)
def test_a_program_that_does_not_link_or_run_is_named(
    changed: dict[str, Any], where: str, corpus: Path, clang: Path, tmp_path: Path
) -> None:
    given = write_programs(tmp_path, **changed)
    error = refused(lambda: evaluated(corpus, clang, given), "model-unsuitable", "could not be linked or run:")
    assert where in error.where


@pytest.mark.usefixtures("_valgrind")
def test_a_program_that_prints_something_else_is_no_saving(corpus: Path, clang: Path, tmp_path: Path) -> None:
    programs = write_programs(tmp_path, said="words[0]")  # its own name, which differs
    said = "prints something else when it is compiled with the policy"
    refused(lambda: evaluated(corpus, clang, programs), "model-unsuitable", said)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"runs": []}, "runs"),
        ({"name": "a/b"}, "a file's name"),
        ({"runs": [{"name": "a"}, {"name": "a"}]}, "two of the same name"),
        ({"runs": [{"name": "a"}]}, "a confidence interval needs 5"),
        ({"links": []}, "links"),
        ({"command": ["python3"]}, "write {program} where its path belongs"),
        ({"environment": {"A": 1}}, "environment"),
    ],
)
def test_a_file_of_programs_that_is_wrong_is_explained(
    changed: dict[str, Any], problem: str, clang: Path, tmp_path: Path
) -> None:
    error = refused(lambda: Counter(write_programs(tmp_path, **changed), Toolchain(clang)), "input-invalid")
    assert problem in str(error)


def test_without_valgrind_nothing_begins(clang: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(lambda: Counter(write_programs(tmp_path), Toolchain(clang)), "tool-missing")
