#!/usr/bin/env python3
"""What integrates cost: smoke tests of every strategy against linear and the floor; ``status`` against ``git log``.

One run prints all. Ratios of sums; the floor is Σ over the walks of log2 C(n, d) + d tests: which d of n commits break,
and one re-test a fix. "Each fix tested" re-tests every fix by itself, as the floor counts; "folded" is what the toolkit
does: the next probe ahead vouches for the fix, unless it fails. Confirmations of culprits stand beside the tests, which
the ratios are of: every strategy needs about as many. ``cancelled``, ``minutes`` (of all machines) and
``elapsed`` are ratios to linear, too: on recorded walks a test takes as long as a recorded one, drawn at random.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simulate import Scenario, Summary, generate_walks, load_walks, summarize  # noqa: E402

RECORDED = ROOT / "benchmarks" / "data" / "iree-walks.json"
STRATEGIES = (("linear", 1), ("head", 1), ("adaptive", 1), ("parallel", 8))


def strategies(title: str, worlds: list[Scenario]) -> None:
    """Every strategy on one set of walks."""
    commits, breaks = sum(world.n for world in worlds), sum(len(world.breaks) for world in worlds)
    print(f"\n## {title}: {len(worlds)} walks, {commits} affecting commits, {breaks} breaks")
    print(
        f"{'':<34}{'confirm.':>9}{'tests':>8}{'/linear':>9}{'/floor':>8}{'cancelled':>10}{'minutes':>9}{'rounds':>8}{'/linear':>9}"
        f"{'elapsed':>9}{'missed':>8}{'false':>7}"
    )
    for name, width in STRATEGIES:
        for retest in (True, False):
            summary = summarize(worlds, name, width=width, retries=0, retest=retest)
            line(f"{summary.strategy}, {'each fix tested' if retest else 'folded'}", summary)
    line("adaptive, no history, tested", summarize(worlds, "adaptive", retries=0, retest=True, learn=False))
    print(f"linear {summary.linear}, floor {summary.floor:.0f} = {summary.floor / summary.linear:.3f} of linear")


def line(label: str, s: Summary) -> None:
    """One row."""
    tests = f"{s.confirmations:>9}{s.tests:>8}{s.tests / s.linear:>9.3f}{s.tests / s.floor:>8.3f}"
    tests += f"{s.cancelled / s.linear:>10.3f}"
    rounds = f"{s.rounds:>8}{s.rounds / s.linear:>9.3f}{s.elapsed / s.linear_minutes:>9.3f}"
    print(f"{label:<34}{tests}{s.minutes / s.linear_minutes:>9.3f}{rounds}{s.missed:>8}{s.false_culprits:>7}")


def weights(seeds: int) -> None:
    """What it is worth to know which commits can't matter."""
    print("\n## Weights: N=150, p=0.02 overall; a share of the commits touches nothing that the downstream uses")
    for share in (0.3, 0.5, 0.7):
        told = generate_walks(commits=150, break_rate=0.02, flaky=0.0, seeds=seeds, telling=share)
        untold = [dataclasses.replace(world, factors=()) for world in told]
        with_weights, without = (summarize(w, "adaptive", retries=0).tests for w in (told, untold))
        print(f"share {share:.0%}: {without} tests without weights, {with_weights} with ({with_weights / without:.2f})")


def flaky(seeds: int) -> None:
    """False culprits where tests fail for no reason, and what it costs to name none."""
    print("\n## Smoke tests that fail for no reason (N=150, p=0.02), tests and confirmations a walk")
    print(f"{'rate':>5}{'attempts':>10}{'':>16}{'tests':>8}{'confirm.':>10}{'sum':>8}{'false in 50 walks':>19}")
    for rate in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
        worlds = generate_walks(commits=150, break_rate=0.02, flaky=rate, seeds=seeds)
        for attempts in (1, 2, 3):
            for confirm in (False, True):
                s = summarize(worlds, "adaptive", retries=attempts - 1, confirm=confirm)
                tests, confirmations = s.tests / s.walks, s.confirmations / s.walks
                label = f"{rate:>5.0%}{attempts:>10}{'confirmed' if confirm else 'not confirmed':>16}"
                costs = f"{tests:>8.1f}{confirmations:>10.1f}{tests + confirmations:>8.1f}"
                print(f"{label}{costs}{50 * s.false_culprits / s.walks:>19.1f}")


def cpu(command: list[str], environment: dict[str, str]) -> float:
    """The CPU time of a command and of all that it started, in ms: on a busy machine, it says more than a clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


#: What a look at an integrate imports, one row after the other: each row has those above it.
IMPORTS = {
    "python": "pass",
    "+ click, msgspec, subprocess, tomllib": "import click, msgspec, subprocess, tomllib",
    "+ modules of mlir_release": "import mlir_release.cli.app, mlir_release.integrate.commands.integrate; "
    "import mlir_release.integrate.open, mlir_release.integrate.status, mlir_release.integrate.walk.observe",
}


def status(upstream: Path, branch: str, ahead: int, paths: list[str]) -> None:
    """What ``status`` takes against the same ``git log`` alone, in a downstream with a submodule, ``ahead`` behind."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        pin, checkout = git(upstream, "rev-parse", f"{branch}~{ahead}"), root / "downstream"
        subprocess.run(["git", "init", "-q", "-b", "main", checkout], check=True)
        inner = checkout / "third_party" / "upstream"
        subprocess.run(["git", "clone", "-q", "--no-checkout", upstream, inner], check=True)
        git(inner, "update-ref", "--no-deref", "HEAD", pin)
        git(inner, "update-ref", f"refs/mlir-release/upstream/{branch}", git(upstream, "rev-parse", branch))
        (checkout / ".gitmodules").write_text(
            f'[submodule "third_party/upstream"]\n\tpath = third_party/upstream\n\turl = {upstream}\n'
        )
        (checkout / "integrate.toml").write_text(
            f'[upstream]\nurl = "{upstream}"\nbranch = "{branch}"\nsubmodule = "third_party/upstream"\n'
            f"paths = {json.dumps(paths)}\n"
            '[smoke]\ncommand = ["true"]\n'
        )
        git(checkout, "add", "integrate.toml", ".gitmodules")
        git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{pin},third_party/upstream")
        git(checkout, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "Begin")
        python = installed(root)
        arguments = ["integrate", "-C", str(checkout), "status", "--no-fetch"]
        cli = [python, "-m", "mlir_release", *arguments]
        log = ["log", "-z", "--format=%H%x00%T%x00%s", "--first-parent", "--reverse", f"{pin}..{branch}", "--", *paths]
        commands = {"git log": ["git", "-C", str(upstream), *log]}
        commands |= {name: [python, "-c", code] for name, code in IMPORTS.items()}
        commands["mlir-release integrate status"] = cli
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PYTHONPYCACHEPREFIX": str(root / "compiled"),  # pip compiles what it installs
        }
        subprocess.run(cli, env=environment, check=True, capture_output=True)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(15):
            for name, command in commands.items():  # in turn, so that a busy moment hits all alike
                times[name].append(cpu(command, environment))
        trace = root / "trace"
        done = subprocess.run([*cli, "--json"], env={**environment, "GIT_TRACE": str(trace)}, capture_output=True)
        commits = len(json.loads(done.stdout)["ahead"])
        print(f"\n## status: {ahead} commits ahead of the pin in {upstream.name}, {commits} of them affecting")
        print(f"{'CPU time of 15 runs, ms':<40}{'median':>8}{'best':>8}{'/git log':>10}")
        for name, taken in times.items():
            ratio = statistics.median(one / plain for one, plain in zip(taken, times["git log"], strict=True))
            print(f"{name:<40}{statistics.median(taken):>8.0f}{min(taken):>8.0f}{ratio:>10.1f}")
        print(f"git processes: {trace.read_text().count('trace: built-in:')}")


def installed(root: Path) -> str:
    """A Python that finds the toolkit as an installed one does: a checkout's finder of modules takes 10 ms more."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True)
    packages = next((root / "venv").glob("lib/python*/site-packages"))
    found = [ROOT, *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "toolkit.pth").write_text("".join(f"{path}\n" for path in found))
    return str(root / "venv" / "bin" / "python")


def generate(repository: Path, commits: int) -> None:
    """A linear history in which every fifth commit touches a tracked path."""
    with subprocess.Popen(["git", "-C", str(repository), "fast-import", "--quiet"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for number in range(commits):
            path = f"mlir/f{number % 500}" if number % 5 == 0 else f"llvm/lib/{number % 40}/f{number % 2000}"
            content = f"{number}\n"
            process.stdin.write(
                f"commit refs/heads/main\ncommitter u <u@example.com> {1_700_000_000 + number} +0000\n"
                f"data 7\ncommit\n\nM 100644 inline {path}\ndata {len(content)}\n{content}\n".encode()
            )
        process.stdin.close()
        if process.wait():
            sys.exit("fast-import failed")


def git(folder: Path, *arguments: str) -> str:
    """Run git."""
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--ahead", type=int, default=2000)
    parser.add_argument(
        "--status",
        nargs="+",
        default=[],
        metavar="WORD",
        help="only measure status: on a clone (a folder), its branch, and paths in it that are tracked",
    )
    options = parser.parse_args()
    if options.status:
        folder, branch, *paths = options.status
        status(Path(folder).absolute(), branch, options.ahead, paths)
        return
    strategies("Recorded (IREE)", load_walks(RECORDED))
    worlds = generate_walks(commits=150, break_rate=0.02, flaky=0.0, seeds=options.seeds)
    strategies("Generated, N=150, p=0.02", worlds)
    weights(options.seeds)
    flaky(options.seeds)
    with tempfile.TemporaryDirectory() as place:
        upstream = Path(place, "generated")
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", upstream], check=True)
        generate(upstream, options.commits)
        status(upstream, "main", options.ahead, ["mlir", "utils/bazel"])


if __name__ == "__main__":
    main()
