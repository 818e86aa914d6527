"""Many tries of commands on malformed files, and what they found."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import mlir_release.cli
from tests.fuzz import sandbox
from tests.fuzz.commands import CASES, Case
from tests.fuzz.mutation import TEXTS, displace, mutate
from tests.fuzz.world import RECORD, digests_of, environment, make_world, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What an expected failure may end with (:class:`mlir_release.ground.errors.ExitCode`); 1 is a bug of ours.
EXPECTED = frozenset({0, 2, 3, 4, 5, 6, 7, 125})

#: Where every command may write.
_OPEN = ("out", "home", "tmp")

SECONDS = 30.0

#: What the command line says of an exception that no command expected: a reader should have refused its input by name.
_UNEXPECTED = ("internal-error", "input-unusable")

_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'File "[^"]*/(mlir_release/[^"]+)", line \d+, in (\S+)')
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A try that ended as none may."""

    kind: str  #: ``traceback``, ``code``, ``hang``, ``signal``, ``written``
    place: str  #: the same for tries that have the same cause
    command: str
    malformed: str
    output: str

    @property
    def key(self) -> str:
        """Tells causes apart."""
        return f"{self.kind}: {self.place}"


@dataclass(frozen=True)
class Report:
    """What a campaign did."""

    tries: int
    refused: int  #: that ended with an error of ours
    findings: tuple[Finding, ...]

    def causes(self) -> dict[str, list[Finding]]:
        """The findings by their cause."""
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.key, []).append(finding)
        return found

    def text(self) -> str:
        """For people."""
        causes = self.causes()
        lines = [f"{self.tries} tries, {self.refused} refused, {len(self.findings)} findings of {len(causes)} causes"]
        for key, found in sorted(causes.items(), key=lambda item: -len(item[1])):
            first = found[0]
            lines += [f"{len(found):5d}  {key}", f"       mlir-release {first.command}  [{first.malformed}]"]
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """One file for each cause."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, found in self.causes().items():
            name = hashlib.sha256(key.encode()).hexdigest()[:12]
            (folder / f"{name}.json").write_text(
                json.dumps({"cause": key, "examples": [asdict(f) for f in found[:5]]}, indent=1)
            )


# -- one try ----------------------------------------------------------------------------------------------------------


class Workshop:
    """A world that is put right again after each try.

    :param folder: for the world and its copy; does not exist
    """

    def __init__(self, folder: Path) -> None:
        self.seconds = SECONDS  #: that a command may take
        self.root, self._pristine, self._log = folder / "world", folder / "pristine", folder / "log"
        make_world(self.root)
        shutil.copytree(self.root, self._pristine, symlinks=True)
        self._log.mkdir()
        self.names: dict[str, str] = json.loads((self.root / "in" / "commits.json").read_text())
        self._sound = self._look()

    def attempt(self, case: Case, rng: random.Random) -> tuple[sandbox.End, Finding | None]:
        """Make something malformed, run the command, look at what it did."""
        words, malformed = self._spoil(case, rng)
        before = self._look()
        end = sandbox.run(
            lambda: _call(words), log=self._log, cwd=self.root, environment=environment(self.root), seconds=self.seconds
        )
        # Where the command line keeps the traceback of what no command expected.
        kept = "".join(
            path.read_text("utf-8", "replace") for path in sorted((self.root / "tmp").glob("mlir-release-*.txt"))
        )
        end = replace(end, stderr=end.stderr + kept)
        after = self._look()
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        outside = [
            name for name in changed if not name.startswith(tuple(f"{place}/" for place in (*_OPEN, *case.writes)))
        ]
        self._restore(after)
        found = judge(end, outside)
        if found is None:
            return end, None
        kind, place = found
        output = (end.stdout[-2_000:] + end.stderr[-8_000:]).replace(str(self.root), ".")
        return end, Finding(kind, place, " ".join(words)[:2_000], malformed, output)

    # -- malformed ----------------------------------------------------------------------------------------------

    def _spoil(self, case: Case, rng: random.Random) -> tuple[list[str], str]:
        words = [self.names.get(word, word) for word in case.words]
        words += ["--json"] if rng.random() < 0.3 and "--" not in words else []
        if not case.inputs or rng.random() < 0.1:
            return _spoil_words(words, rng)
        place = rng.choice(case.inputs)
        if "@" in place:
            forge, branch, name = re.split("[@:]", place)
            content = self._git(f"{forge}/repository.git", "cat-file", "blob", f"{branch}:{name}")
            self._commit(f"{forge}/repository.git", branch, name, mutate(content, name, rng))
        elif "#" in place:
            self._retag(place.partition("#")[2], rng)
        elif "%" in place:
            self._record(rng)
        else:
            found = sorted(path for path in self.root.glob(place) if path.is_file())
            if not found:
                return words, f"{place}: nothing there"
            path = rng.choice(found)
            place = str(path.relative_to(self.root))
            if rng.random() < 0.06:
                return words, f"{place}: {displace(path, rng)} in its place"
            path.write_bytes(mutate(path.read_bytes(), path.name, rng))
            self._lie(path, rng)
            if place.startswith("mini/downstream/") and "/.git/" not in place and rng.random() < 0.5:
                self._git("mini/downstream", "commit", "-q", "-a", "-m", "Break")
        return words, place

    def _lie(self, path: Path, rng: random.Random) -> None:
        """A forge's record, and a manifest, say mostly what is there: that is all that keeps a reader from it."""
        folder = path.parent
        if path.name == RECORD or not (folder / RECORD).is_file() or rng.random() < 0.2:
            return
        manifest = folder / "release.json"
        if path.suffix == ".whl" and manifest.is_file() and rng.random() < 0.7:
            manifest.write_text(json.dumps(digests_of(folder, path.name, json.loads(manifest.read_bytes()))))
            record(folder, manifest.name)
        record(folder, path.name)

    def _git(self, folder: str, *arguments: str, content: bytes = b"") -> bytes:
        command = ["git", "-C", str(self.root / folder), *arguments]
        env = {**environment(self.root), "PATH": os.environ["PATH"]}
        return subprocess.run(command, input=content, check=False, capture_output=True, env=env).stdout

    def _commit(self, repository: str, branch: str, name: str, content: bytes) -> None:
        """A commit on a branch with another file, by plumbing alone: nothing looks at the content."""
        blob = self._git(repository, "hash-object", "-w", "--stdin", content=content).decode().strip()
        rows = self._git(repository, "ls-tree", branch).decode().splitlines()
        rows = [f"100644 blob {blob}\t{name}" if row.endswith(f"\t{name}") else row for row in rows]
        tree = self._git(repository, "mktree", content="\n".join([*rows, ""]).encode()).decode().strip()
        commit = self._git(repository, "commit-tree", tree, "-p", branch, "-m", "Break").decode().strip()
        self._git(repository, "update-ref", f"refs/heads/{branch}", commit)

    def _retag(self, tag: str, rng: random.Random) -> None:
        """An annotated tag with another message, or with no form at all."""
        repository = "forge/repository.git"
        head, _, message = self._git(repository, "cat-file", "tag", tag).partition(b"\n\n")
        lines = message.splitlines()
        if rng.random() < 0.6 and lines:
            at = rng.randrange(len(lines))
            key = lines[at].partition(b": ")[0]
            lines[at] = key + b": " + rng.choice(TEXTS).encode("utf-8", "surrogatepass")
            message = b"\n".join(lines)
        else:
            message = mutate(message, "message", rng)
        content = head + b"\n\n" + message.replace(b"\x00", b"?")
        made = self._git(repository, "hash-object", "-t", "tag", "-w", "--literally", "--stdin", content=content)
        self._git(repository, "update-ref", f"refs/tags/{tag}", made.decode().strip())

    def _record(self, rng: random.Random) -> None:
        """Another verdict at the place of the recorded one."""
        folder = "mini/downstream"
        refs = self._git(folder, "for-each-ref", "--format=%(refname)", "refs/mlir-release/probes").decode().split()
        if not refs:
            return
        (row, *_) = self._git(folder, "ls-tree", refs[0]).decode().splitlines()
        oid, name = row.split()[2:4]
        content = mutate(self._git(folder, "cat-file", "blob", oid), "record.json", rng)
        blob = self._git(folder, "hash-object", "-w", "--stdin", content=content).decode().strip()
        tree = self._git(folder, "mktree", content=f"100644 blob {blob}\t{name}\n".encode()).decode().strip()
        commit = self._git(folder, "commit-tree", tree, "-m", "Break").decode().strip()
        self._git(folder, "update-ref", refs[0], commit)

    # -- the world ----------------------------------------------------------------------------------------------

    def _look(self) -> dict[str, tuple[object, ...]]:
        """What is there, without following a link."""
        return {
            os.path.relpath(entry.path, self.root): _facts(entry.stat(follow_symlinks=False))
            for entry in _walk(str(self.root))
        }

    def _restore(self, now: dict[str, tuple[object, ...]]) -> None:
        wrong = sorted(name for name in now.keys() | self._sound.keys() if now.get(name) != self._sound.get(name))
        for name in reversed(wrong):
            path = self.root / name
            if not path.is_symlink() and path.is_dir():
                if name not in self._sound or not (self._pristine / name).is_dir():
                    shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for name in wrong:
            if name not in self._sound:
                continue
            source, path = self._pristine / name, self.root / name
            if source.is_dir() and not source.is_symlink():
                path.mkdir(exist_ok=True)
            else:
                shutil.copy2(source, path, follow_symlinks=False)
            self._sound[name] = _facts(path.lstat())


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)


def _facts(status: os.stat_result) -> tuple[object, ...]:
    if stat.S_ISDIR(status.st_mode):
        return ("folder",)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)


def _spoil_words(words: list[str], rng: random.Random) -> tuple[list[str], str]:
    """Another text for one argument, or for the value of one option; never for where output goes."""
    head = 3 if words[0] == "integrate" else 0
    places = [
        at for at in range(head + 1, len(words)) if not words[at].startswith(("-", "out")) and words[at] not in _NAMES
    ]
    if not places:
        return words, "nothing"
    at = rng.choice(places)
    text = rng.choice(TEXTS).replace("\x00", "")
    prefix = "local:" if words[at].startswith("local:") and rng.random() < 0.5 else ""
    # An argument's bytes that are not UTF-8 come as Python brings them.
    changed = (prefix + text).encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    if changed.startswith(("/", "..", "~", "$")):
        changed = f"in/{changed}"
    return [*words[:at], changed, *words[at + 1 :]], f"argument {at}: {changed[:60]!r}"


#: The words of commands and of their groups.
_NAMES = frozenset(
    word
    for case in CASES
    for word in case.words[: 6 if case.words[0] == "integrate" else 2]
    if word.replace("-", "").isalpha() and word.islower() and word not in ("main", "true", "latest")
)


def _call(words: Sequence[str]) -> int:
    """What the program ``mlir-release`` does."""
    from mlir_release.cli.app import main

    sys.argv = ["mlir-release", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def judge(end: sandbox.End, outside: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with how a command ended, as a kind and what tells its cause; None if nothing is."""
    both = end.stdout + end.stderr
    if end.hung:
        return "hang", _last_step(end.stderr)
    if end.code < 0:
        return "signal", f"{-end.code}, {_last_step(end.stderr)}"
    if _TRACEBACK in both or end.code == 1 or any(word in both for word in _UNEXPECTED):
        return "traceback", cause_of(both)
    if end.code not in EXPECTED:
        return "code", str(end.code)
    if outside:
        return "written", re.sub(r"\d+|[0-9a-f]{8,}", "N", outside[0])[:100]
    return None


def cause_of(output: str) -> str:
    """The innermost function of ours that the last traceback names, with the exception."""
    shown = output[output.rfind(_TRACEBACK) :]
    frames, raised = _FRAME.findall(shown), _RAISED.search(shown, shown.rfind('  File "') + 1)
    where = f"{frames[-1][0]}:{frames[-1][1]}" if frames else "?"
    return f"{where} {raised[1] if raised else shown.strip()[-80:] or '?'}"


def _last_step(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return re.sub(r"\d+", "N", lines[-1])[:80] if lines else "?"


# -- many -------------------------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Import what commands import when they run, once for all children."""
    for module in walk_packages(mlir_release.__path__, "mlir_release."):
        if ".projects.mlir." not in module.name and not module.name.endswith(("__main__", "in_tensorflow")):
            import_module(module.name)
    for name in ("sigstore.verify", "sigstore.models", "griffe", "rich.table", "jinja2", "yaml", "zstandard", "lief"):
        import_module(name)


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    seed: int = 1
    number: int = 3_000  #: of commands, and of files that are read
    minutes: float = 10.0  #: for coverage
    only: str = ""  #: the first words of the commands, or of a reader's name; empty: all
    findings: Path = Path("build/fuzz")  #: where coverage keeps the inputs


def try_commands(folder: Path, plan: Plan, part: int, parts: int) -> Report:
    """Part ``part`` of the tries of commands: the n-th try is the same in every division."""
    warm_up()
    workshop = Workshop(folder)
    cases = [case for case in CASES if case.line.startswith(plan.only)]
    findings: list[Finding] = []
    refused = 0
    numbers = range(part, plan.number, parts)
    for number in numbers:
        end, found = workshop.attempt(cases[number % len(cases)], random.Random(f"{plan.seed}:{number}"))
        refused += end.code in EXPECTED and end.code != 0
        if found is not None:
            findings.append(found)
            print(f"{number}: {found.key}", file=sys.stderr, flush=True)
    return Report(len(numbers), refused, tuple(findings))


def try_readers(folder: Path, plan: Plan, part: int, parts: int) -> Report:
    """The same for readers: those of one part get all of their files there."""
    from tests.fuzz import readers

    world, log = folder / "world", folder / "log"
    make_world(world)
    log.mkdir()
    chosen = [reader for reader in readers.READERS if reader.name.startswith(plan.only)]
    each = -(-plan.number // len(chosen))
    findings = []
    for reader in chosen[part::parts]:
        for number, end in readers.run(reader, world, log, seed=plan.seed, numbers=range(each)):
            kind, place = judge(end, ()) or ("code", str(end.code))
            findings.append(Finding(kind, place, reader.name, f"file {number}", end.stderr[-8_000:]))
    return Report(each * len(chosen[part::parts]), 0, tuple(findings))


def try_coverage(folder: Path, plan: Plan, part: int, parts: int) -> Report:
    """The same, guided by coverage, each for its share of the time."""
    from tests.fuzz import readers

    world = folder / "world"
    make_world(world)
    chosen = [reader for reader in readers.READERS if reader.name.startswith(plan.only)]
    seconds = max(5, round(60 * plan.minutes * parts / len(chosen)))
    findings: list[Finding] = []
    tries = 0
    for reader in chosen[part::parts]:
        command = [sys.executable, "-m", "tests.fuzz.coverage", reader.name]
        command += [str(readers.seed_of(reader, world)), str(plan.findings), str(seconds)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace",
            env={**environment(world), "PATH": os.environ["PATH"]},
        )  # fmt: skip
        for line in done.stdout.splitlines():
            if line.startswith("["):
                place, name, said = json.loads(line)
                findings.append(Finding("traceback", place, reader.name, name, said))
        tries += sum(map(int, re.findall(r"stat::number_of_executed_units: *(\d+)", done.stderr)))
        if done.returncode:
            findings.append(
                Finding("code", f"{reader.name} {done.returncode}", reader.name, "died-*", done.stderr[-8_000:])
            )
    return Report(tries, 0, tuple(findings))


KINDS: dict[str, Callable[[Path, Plan, int, int], Report]] = {
    "commands": try_commands,
    "readers": try_readers,
    "coverage": try_coverage,
}


def run(kind: str, scratch: Path, plan: Plan, *, jobs: int) -> Report:
    """All tries of a kind, in ``jobs`` processes side by side."""
    words = [kind, "--seed", plan.seed, "--number", plan.number, "--minutes", plan.minutes, "--findings", plan.findings]
    parts = []
    for part in range(jobs):
        (scratch / str(part)).mkdir()
        command = [sys.executable, "-m", "tests.fuzz", *map(str, words), "--only", plan.only]
        command += ["--part", f"{scratch / str(part)}:{part}/{jobs}"]
        parts.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    reports = []
    for process in parts:
        said, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"a part of the campaign ended with {process.returncode}")
        reports.append(_read(said.splitlines()[-1]))
    return Report(
        sum(report.tries for report in reports),
        sum(report.refused for report in reports),
        tuple(finding for report in reports for finding in report.findings),
    )


def write_part(report: Report) -> str:
    """A part's report, on one line."""
    return json.dumps(asdict(report))


def _read(line: str) -> Report:
    data = json.loads(line)
    return Report(data["tries"], data["refused"], tuple(Finding(**found) for found in data["findings"]))
