#!/usr/bin/env python3
"""What integrates cost: smoke tests of every strategy against linear and the floor; ``status`` against ``git log``.

One run prints all. Ratios of sums; the floor is Σ over the walks of log2 C(n, d) + d tests: which d of n commits break,
and one re-test a fix. "Each fix tested" re-tests every fix by itself, as the floor counts; "folded" is what the toolkit
does: the next probe ahead vouches for the fix, unless it fails. Confirmations of culprits are in none of these figures:
every strategy needs as many. ``cancelled``, ``minutes`` (of all machines) and
``elapsed`` are ratios to linear, too: on recorded walks a test takes as long as a recorded one, drawn at random.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlir_release.integrate.simulate import Scenario, Summary, generate_walks, load_walks, summarize  # noqa: E402

RECORDED = ROOT / "benchmarks" / "data" / "iree-walks.json"
STRATEGIES = (("linear", 1), ("head", 1), ("adaptive", 1), ("parallel", 8))


def strategies(title: str, worlds: list[Scenario]) -> None:
    """Every strategy on one set of walks."""
    commits, breaks = sum(world.n for world in worlds), sum(len(world.breaks) for world in worlds)
    print(f"\n## {title}: {len(worlds)} walks, {commits} affecting commits, {breaks} breaks")
    print(
        f"{'':<34}{'tests':>8}{'/linear':>9}{'/floor':>8}{'cancelled':>10}{'minutes':>9}{'rounds':>8}{'/linear':>9}"
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
    tests = f"{s.tests:>8}{s.tests / s.linear:>9.3f}{s.tests / s.floor:>8.3f}{s.cancelled / s.linear:>10.3f}"
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


def status(commits: int, ahead: int) -> None:
    """What ``status`` takes in a repository of ``commits`` generated commits, against plain git."""
    print(f"\n## status: {commits} generated commits, {ahead} of them ahead of the pin")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        upstream = root / "upstream.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", upstream], check=True)
        generate(upstream, commits)
        pin = git(upstream, "rev-parse", f"main~{ahead}")
        checkout = root / "downstream"
        subprocess.run(["git", "init", "-q", "-b", "main", checkout], check=True)
        (checkout / "llvm-project.version").write_text(f"{pin}\n")
        (checkout / "integrate.toml").write_text(
            f'[upstream]\nurl = "{upstream}"\n[downstream]\npin-file = "llvm-project.version"\n'
            '[smoke]\ncommand = ["true"]\n'
        )
        git(checkout, "add", ".")
        git(checkout, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "Begin")
        cli = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(checkout), "status", "--no-fetch"]
        environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(root / "compiled"),  # pip compiles what it installs
            **{f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        subprocess.run(cli, env=environment, check=True, capture_output=True)  # the first one clones
        mirror = checkout / ".git" / "mlir-release" / "upstream.git"
        log = ["git", "-C", str(mirror), "log", "--oneline", f"{pin}..refs/mlir-release/upstream/main", "--"]
        commands = {
            "git log -- mlir utils/bazel": [*log, "mlir", "utils/bazel"],
            "python -c pass": [sys.executable, "-c", "pass"],
            "the same, with its libraries": [sys.executable, "-c", "import click, msgspec, subprocess, tomllib"],
            "mlir-release --version": [sys.executable, "-m", "mlir_release", "--version"],
            "mlir-release integrate status": cli,
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(15):
            for name, command in commands.items():  # in turn, so that a busy moment hits all alike
                times[name].append(cpu(command, environment))
        plain = statistics.median(times["git log -- mlir utils/bazel"])
        print(f"{'CPU time of 15 runs, ms':<32}{'median':>8}{'best':>8}{'/git log':>10}")
        for name, taken in times.items():
            median = statistics.median(taken)
            print(f"{name:<32}{median:>8.0f}{min(taken):>8.0f}{median / plain:>10.1f}")
        trace = root / "trace"
        subprocess.run(cli, env={**environment, "GIT_TRACE": str(trace)}, check=True, capture_output=True)
        print(f"git processes: {trace.read_text().count('trace: built-in:')}")


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
    options = parser.parse_args()
    strategies("Recorded (IREE)", load_walks(RECORDED))
    worlds = generate_walks(commits=150, break_rate=0.02, flaky=0.0, seeds=options.seeds)
    strategies("Generated, N=150, p=0.02", worlds)
    weights(options.seeds)
    flaky(options.seeds)
    status(options.commits, options.ahead)


if __name__ == "__main__":
    main()
