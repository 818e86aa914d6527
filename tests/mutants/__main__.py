"""``python -m tests.mutants``: see ``make mutants``."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.table import ROOT, Mutant, NotApplicable, mutants

#: Seconds for the tests of one mutant, which take a fraction of them.
LIMIT = 600.0

#: Unlike the time of any other version of a file: by it Python knows that its compiled code is out of date.
_times = count(1_000_000_000)

#: Each leads a group of its own, so an interrupt from the keyboard reaches none of them.
_running: set[subprocess.Popen[str]] = set()


class Copy:
    """The toolkit and its tests in a folder of their own, with a Python that imports them from there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, folder / ".venv/bin"
        listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        for command in (("init", "--quiet"), ("add", "--all")):  # tests ask git what the toolkit's files are
            subprocess.run(("git", *command), cwd=folder, check=True)
        # By a file and no variable, of which foreign programs get few. A folder that a .pth file names is searched, but
        # .pth files in it, as that of the editable installation, are not read.
        venv.create(folder / ".venv", symlinks=True)
        site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / ".venv")}))
        (site / "copy.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
        installed = Path(sysconfig.get_path("scripts"))
        for program in installed.iterdir():
            if not (mine := self.programs / program.name).exists():
                mine.write_bytes(program.read_bytes().replace(bytes(installed), bytes(self.programs), 1))
                mine.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        """Replace a file."""
        (self.folder / path).write_text(text, encoding="utf-8")
        os.utime(self.folder / path, (now := next(_times), now))

    def test(self, *arguments: str, limit: float | None = None) -> tuple[int | None, str]:
        """Run tests; returns pytest's exit code (None: they did not end in time) and its output."""
        process = subprocess.Popen(
            [self.programs / "python", "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        _running.add(process)
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _running.discard(process)
            if process.poll() is None:
                _end(process)
                process.wait()


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def attempt(mutant: Mutant, copies: SimpleQueue[Copy]) -> str:
    """Put one mutant into a copy: ``caught``, or what it is instead."""
    copy = copies.get()
    try:
        text = (copy.folder / mutant.path).read_text(encoding="utf-8")
        copy.write(mutant.path, mutant.applied(text))
        code, output = copy.test("-x", *mutant.tests, limit=LIMIT)
        copy.write(mutant.path, text)
    except (NotApplicable, FileNotFoundError) as error:
        return f"no longer applies: {error}"
    finally:
        copies.put(copy)
    if code is None:  # a test that hangs tells nobody what is wrong
        return f"its tests did not end within {LIMIT:.0f} s"
    said = output.strip().rpartition("\n")[2]
    return {0: f"SURVIVED: {said}", 1: "caught"}.get(code, f"pytest ended with {code}: {said}")


def main() -> int:
    """Run the tests without a mutant, then with each. 1 if one is not caught."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Whether the tests notice faults that are put in on purpose."
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="the mutants whose id has this text in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants side by side")
    given = parser.parse_args()
    chosen = [mutant for mutant in mutants() if given.only in mutant.id]
    if not chosen:
        parser.error(f"no mutant's id has {given.only!r} in it")
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        made = [Copy(Path(scratch, str(number))) for number in range(min(given.jobs, len(chosen)))]
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        print(f"{len(tests)} tests and files without a mutant", file=sys.stderr, flush=True)
        code, output = made[0].test(f"--numprocesses={given.jobs}", "--dist=loadfile", *tests)
        if code != 0:
            print(output, file=sys.stderr)
        failing = tuple(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))
        copies: SimpleQueue[Copy] = SimpleQueue()
        for copy in made:
            copies.put(copy)
        with ThreadPoolExecutor(len(made)) as pool:
            begun = {pool.submit(attempt, mutant, copies): mutant for mutant in chosen}
            try:
                for done in as_completed(begun):
                    mutant = begun[done]
                    useless = [test for test in mutant.tests if any(name.startswith(test) for name in failing)]
                    found = results[mutant.id] = f"without it, {useless[0]} fails" if useless else done.result()
                    print(f"{len(results)} of {len(chosen)}: {mutant.id}: {found}", file=sys.stderr, flush=True)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(_running):
                    _end(process)
                raise
    missed = [mutant for mutant in chosen if results[mutant.id] != "caught"]
    for mutant in missed:
        print(f"{mutant.id}: {results[mutant.id]}\n  {mutant.promise}: {mutant.at}", file=sys.stderr)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants caught", file=sys.stderr)
    return 1 if missed or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
