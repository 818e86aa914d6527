"""Each command that changes something, eight times at once: the end is that of one, and no process leaves a traceback.

``mirror`` and ``install`` have tests of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mlir_release.ground.errors import ExitCode
from mlir_release.release.latest.latest import POINTER_FILE
from mlir_release.release.model.release_settings import LATEST_BRANCH
from tests.attacks.latest_stage import NEW, latest_stage
from tests.commands.world import PENDING, PUBLISHED, UPSTREAM, copy_world, enter, run
from tests.extras.integration.sets.test_lock import make_foreign
from tests.release.integration.signed_stage import REPOSITORY

COUNT = 8

_AT = "--forge local:forge"
_IN = "integrate -C downstream"

#: A command, and what comes before it, once.
COMMANDS: dict[str, tuple[str, ...]] = {
    f"conda package {PUBLISHED} -o channels {_AT}": (),
    f"downstream init project --tag {PUBLISHED} --kind extension --index https://example.org/releases {_AT}": (),
    "forge init copy -C releases": (),
    f"index -o site {_AT}": (),
    "pin set head -C releases": (),
    f"publish {PENDING} --dist dist/{PENDING} {_AT}": (),
    f"publish {PENDING} --dist dist/{PENDING} --upload-only {_AT}": (),
    f"release abandon {PENDING} --reason x {_AT}": (),
    f"release start --version 23.1.1 --revision main {_AT}": (),
    f"release sweep {_AT}": (),
    f"release waive {PENDING} mlir-linux-x86_64-cp310 --reason x {_AT}": (),
    f"release yank {PUBLISHED} --reason x {_AT}": (),
    f"sets lock set/members.toml -o locked {_AT}": (),
    f"snapshot {_AT}": (),
    f"{_IN} export": (f"{_IN} start",),
    f"{_IN} land": (f"{_IN} start", f"{_IN} run --until 19f0e518309c"),
    f"{_IN} patches add 6f3f3dda4c6c --why x": (f"{_IN} start",),
    f"{_IN} run --until 19f0e518309c": (f"{_IN} start",),
    f"{_IN} start": (),
}

#: Somebody else is at it, or a person has to look: the codes that a process may end with beside 0.
LOSES = {int(ExitCode.CONFLICT), int(ExitCode.NEEDS_PERSON)}


def at_once(words: list[str], count: int) -> list[tuple[int, str]]:
    """The exit code and the output of each process."""
    go, ready = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            os.close(ready)
            os.read(go, 1)
            output, code = run(words)
            Path("..", f"said-{number}").write_text(output)
            os._exit(code)
        children.append(child)
    os.close(go)
    os.close(ready)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return [(code, Path("..", f"said-{number}").read_text()) for number, code in enumerate(codes)]


def state(root: Path) -> dict[str, str]:
    """The files that a command may have written, by their content; each repository by its refs' trees."""
    found: dict[str, str] = {}
    for folder, inside, names in os.walk(root):
        place = Path(folder)
        if (place / "objects").is_dir() and (place / "HEAD").is_file():
            inside.clear()
            shown = ("git", "for-each-ref", "--format=%(refname) %(tree)%(*tree)")
            refs = subprocess.run(shown, cwd=place, capture_output=True, text=True, check=True).stdout
            rows = [line.split() for line in refs.splitlines()]
            # A verdict has the seconds that its test took; what was fetched is a copy.
            found |= {
                f"{place.relative_to(root)} {name}": tree * ("probes/" not in name)
                for name, tree in rows
                if "/remote-" not in name
            }
            continue
        inside[:] = [
            name for name in inside if (place / name).relative_to(root).as_posix() not in {"home", "forge/runs"}
        ]
        for name in names:
            path = place / name
            if not path.is_symlink() and not re.search(r"\.lock$|\.forge\.json$|last-number|runs/", path.as_posix()):
                content = path.read_bytes()
                if path.name == "repodata.json":  # its records are in any order, with the time of their indexing
                    rows = json.loads(content)["packages.conda"]
                    content = repr(sorted((name, row["sha256"]) for name, row in rows.items())).encode()
                found[path.relative_to(root).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


#: By day, one of each kind of place that is written.
_BY_DAY = ("forge init", "patches add", "pin set", "sets lock", "snapshot --forge", "--upload-only")


def make_set(folder: Path, llvm: str) -> None:
    """A set of the releases' mlir and another project's wheel, which says in its description what it is built from."""
    make_foreign(folder / "wheels", "addon", "1.0", "py3-none-any", more=f"\nBuilt from llvm-project {llvm}\n")
    other = "find-links = 'wheels'\nllvm = 'llvm-project ([0-9a-f]{40})'"
    members = f"[[member]]\ndistribution = 'mlir'\n[[member]]\ndistribution = 'addon'\n{other}\n"
    (folder / "members.toml").write_text(f"upstream = '{UPSTREAM}'\n{members}")


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=() if any(word in each for word in _BY_DAY) else pytest.mark.slow) for each in COMMANDS],
)
def test_eight_at_once_end_as_one(command: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, alone = [], {0}
    for count in (1, COUNT):
        root = tmp_path / "world"
        copy_world(world, root)
        with monkeypatch.context() as patch:
            enter(root, patch)
            make_set(root / "set", (root / "releases/llvm-project.version").read_text().strip())
            for before in COMMANDS[command]:
                assert run(shlex.split(before))[1] in LOSES | {0}
            said = at_once(shlex.split(command), count)
        for code, output in said:
            if "output-in-the-way" in output:  # of downstream init, whose files are there now
                continue
            assert code in (alone | LOSES if count > 1 else {0, 7}), output
            assert not re.search("Traceback|internal-error|system-refused", output), output
        alone = alone if count > 1 else {said[0][0]}
        assert alone & {code for code, _ in said}
        ends.append(state(root))
        shutil.rmtree(root)
    assert {
        key: [end.get(key) for end in ends] for key in {*ends[0], *ends[1]} if ends[0].get(key) != ends[1].get(key)
    } == {}


def test_eight_that_store_the_pointer_end_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is signed is stored on GitHub."""
    (signed := tmp_path / "here" / "signed").mkdir(parents=True)
    with latest_stage(tmp_path, monkeypatch) as stage:
        bundle = stage.sign(stage.pointer(NEW).statement())
        for name, content in {**stage.index, POINTER_FILE: bundle}.items():
            (signed / name).parent.mkdir(exist_ok=True)
            (signed / name).write_bytes(content)
        for name, value in stage.signed.server.environment(REPOSITORY, stage.signed.token).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
        monkeypatch.chdir(signed.parent)
        said = at_once(["release", "latest", "--store", "signed", "--forge", f"github:{REPOSITORY}"], COUNT)
        assert [code for code, _ in said] == [0] * COUNT, said
        assert sum(f"stored on the branch {LATEST_BRANCH}" in output for _, output in said) == 1
        forge = stage.signed.forge
        assert forge.read(POINTER_FILE, commit=forge.head(LATEST_BRANCH) or "") == bundle
