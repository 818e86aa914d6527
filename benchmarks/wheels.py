"""What a wheel of MLIR's bindings costs: time of the first CPython and of each further one, and size.

    python benchmarks/wheels.py --sdk SDK [--python 3.12 --python 3.11] [--quick] [--json FILE]

In one run, on one machine: our settings and upstream's plain ones (``-O3``, no precompiled headers, the compiler's own
linker, no folding), with a cold and a warm compiler cache, one after the other and side by side; then the sizes of all
profiles, as built for this machine's glibc and with the settings for the production floor. Times vary by some percent
from run to run; the ratios are what to look at. Nothing else should run meanwhile: what others take is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.wheels import backends, build, jobserver
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import fill_in
from mlir_release.ground.console import console, format_bytes, format_seconds
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import Python, find_pythons

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: What the project promises; printed beside what is measured.
LIMITS = {"cpu of plain": 0.65, "warm cpu of plain": 0.30, "cores busy": 0.90}
SIZE_LIMITS = {"core": 15_500_000, "host": 29_000_000, "full": 33_000_000}
DISTRIBUTIONS = {"core": "mlir-core", "host": "mlir", "full": "mlir-full"}
PRODUCTION_FLOOR = "manylinux_2_28_x86_64"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One call of ``build_wheels``, or several one after the other.

    :param wall: seconds until all were done
    :param cpu: CPU seconds of each CPython's build, in order
    :param busy: share of the machine's cores that this process and its children kept busy, 0 to 1
    :param others: share that everything else on the machine took meanwhile
    """

    settings: str
    cache: str
    order: str
    pythons: tuple[str, ...]
    wall: float
    walls: tuple[float, ...]
    cpu: tuple[float, ...]
    busy: float
    others: float


@dataclass(frozen=True, kw_only=True)
class Size:
    """A wheel's size in bytes: as it travels, and installed."""

    profile: str
    tag: str
    packed: int
    installed: int


@dataclass
class Meter:
    """Shares of the cores, over a span of time."""

    wall: float = 0.0
    busy: float = 0.0
    others: float = 0.0


@contextmanager
def metered() -> Iterator[Meter]:
    """Measure how busy the cores are, and by whom. Source: the kernel's counts for this process, and for all."""
    import psutil

    def mine() -> float:
        return sum(os.times()[:4])

    def everyones() -> float:
        times = psutil.cpu_times()
        return float(times.user + times.nice + times.system)

    meter = Meter()
    start, own, all_ = time.monotonic(), mine(), everyones()
    yield meter
    meter.wall = time.monotonic() - start
    capacity = meter.wall * jobserver.usable_cores()
    meter.busy = (mine() - own) / capacity
    meter.others = max(0.0, (everyones() - all_) / capacity - meter.busy)


@dataclass(frozen=True, kw_only=True)
class WithFloor(backends.BuildBackend):
    """Builds with the settings for an older platform tag than this machine's."""

    wanted: str

    def floor(self, wanted: str) -> str:
        return self.wanted


@dataclass
class Bench:
    """The runs, in a folder of their own."""

    sdk: Sdk
    profile: str
    folder: Path
    runs: list[Run] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)

    def request(self, *, plain: bool = False, profile: str = "", floor: str = "") -> WheelRequest:
        profile = profile or self.profile
        made = WheelRequest.of_profile(profile, sdk=self.sdk, version="20200101.1")
        return replace(made, tag="snapshot-20200101.01", target=f"{made.target}-cp312", plain=plain, floor=floor)

    def prepare(self, pythons: Sequence[Python]) -> None:
        """Make the build environments beforehand: what pip takes is not the build's."""
        for python in pythons:
            requirements = (*BUILD_TOOLS, *fill_in(self.request())["build-system"]["requires"])
            venv.cached(self.folder / "environments", python.executable, requirements)

    def measure(self, pythons: Sequence[Python], *, plain: bool, warm: bool, together: bool) -> Run:
        """Build for ``pythons`` and note what it took. A cold run starts with an empty compiler cache."""
        if not warm:
            shutil.rmtree(self.folder / "ccache", ignore_errors=True)
        request = self.request(plain=plain)
        groups = [list(pythons)] if together else [[python] for python in pythons]
        built: list[build.BuiltWheel] = []
        with metered() as meter:
            for group in groups:
                built += build.build_wheels(
                    request, group, output=self.folder / "out", backend="build", cache=self.folder
                )
        run = Run(
            settings="plain" if plain else "ours",
            cache="warm" if warm else "cold",
            order="side by side" if together else "one by one",
            pythons=tuple(python.tag for python in pythons),
            wall=meter.wall,
            walls=tuple(wheel.wall_seconds for wheel in built),
            cpu=tuple(wheel.cpu_seconds for wheel in built),
            busy=meter.busy,
            others=meter.others,
        )
        self.runs.append(run)
        return run

    def measure_size(self, python: Python, profile: str, floor: str) -> None:
        """Build one profile with the settings of a platform tag, and note its size."""

        (wheel,) = build.build_wheels(
            self.request(profile=profile),
            [python],
            output=self.folder / "sizes",
            backend=WithFloor(wanted=floor) if floor else "build",
            cache=self.folder,
        )
        report = inspect(wheel.path)
        tag = f"settings for {floor}" if floor else report.true_platform_tag
        self.sizes.append(Size(profile=profile, tag=tag, packed=report.size, installed=report.unpacked_size))


def measure_all(bench: Bench, pythons: Sequence[Python], *, quick: bool) -> None:
    """The runs, the longest first."""
    bench.prepare(pythons)
    bench.measure(pythons[:1] if quick else pythons[:2], plain=True, warm=False, together=False)
    bench.measure(pythons[:2], plain=False, warm=False, together=False)
    bench.measure(pythons[:2], plain=False, warm=True, together=False)
    if not quick:
        bench.measure(pythons, plain=True, warm=False, together=True)
    bench.measure(pythons, plain=False, warm=False, together=True)
    bench.measure(pythons, plain=False, warm=True, together=True)
    for profile in (bench.profile,) if quick else tuple(DISTRIBUTIONS):
        for floor in ("",) if quick else ("", PRODUCTION_FLOOR):
            bench.measure_size(pythons[0], profile, floor)


def show(bench: Bench) -> dict[str, Any]:
    """Print the tables; return the ratios by the promise that each belongs to."""
    cores = jobserver.usable_cores()
    plain = next(run for run in bench.runs if run.settings == "plain" and run.order == "one by one")
    rows = [
        [
            run.settings, run.cache, run.order, " ".join(run.pythons),
            format_seconds(run.wall), format_seconds(run.walls[0]), _mean(run.walls[1:]),
            format_seconds(run.cpu[0]), _mean(run.cpu[1:]), f"{sum(run.cpu) / len(run.cpu) / plain.cpu[0]:.2f}",
            f"{run.busy:.0%}", f"{run.others:.0%}",
        ]
        for run in bench.runs
    ]  # fmt: skip
    columns = [
        "settings", "compiler cache", "order", "CPythons", ">wall, all", ">wall, first", ">wall, further",
        ">CPU, first", ">CPU, further", ">CPU of plain", ">cores busy", ">by others",
    ]  # fmt: skip
    info = bench.sdk.info
    title = f"LLVM {info.llvm_version}, profile {bench.profile}, {info.binding_library}, {cores} cores"
    console.table(columns, rows, title=title)
    console.table(
        ["profile", "platform tag", ">wheel", ">installed"],
        [[size.profile, size.tag, format_bytes(size.packed), format_bytes(size.installed)] for size in bench.sizes],
    )
    return judge(bench, plain)


def judge(bench: Bench, plain: Run) -> dict[str, Any]:
    """Compare with the promises and print the verdicts. Of the cores, those count that others left to us."""

    def ours(**wanted: str) -> Run:
        return next(
            run
            for run in bench.runs
            if run.settings == "ours" and all(getattr(run, key) == value for key, value in wanted.items())
        )

    cold, warm = ours(cache="cold", order="one by one"), ours(cache="warm", order="one by one")
    together = ours(cache="cold", order="side by side")
    ratios = {
        "cpu of plain": max(cold.cpu) / plain.cpu[0],
        "warm cpu of plain": max(warm.cpu) / plain.cpu[0],
        "cores busy": together.busy / (1 - together.others),
    }
    rows = []
    for name, value in ratios.items():
        good = value >= LIMITS[name] if name == "cores busy" else value <= LIMITS[name]
        sign = "at least" if name == "cores busy" else "at most"
        rows.append([name, f"{value:.0%}", f"{sign} {LIMITS[name]:.0%}", "yes" if good else "NO"])
    for size in bench.sizes:
        if not size.tag.startswith("settings"):
            good = size.packed <= SIZE_LIMITS[size.profile]
            limit = f"at most {format_bytes(SIZE_LIMITS[size.profile])}"
            rows.append(
                [f"{DISTRIBUTIONS[size.profile]} wheel", format_bytes(size.packed), limit, "yes" if good else "NO"]
            )
    console.table(["promise", ">measured", "promised", "kept"], rows)
    return ratios


def _mean(values: Sequence[float]) -> str:
    return format_seconds(sum(values) / len(values)) if values else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdk", type=Path, required=True, help="folder of the SDK")
    parser.add_argument("--python", action="append", default=[], help="CPython; may be repeated (default: all found)")
    parser.add_argument("--profile", choices=list(DISTRIBUTIONS), default="host")
    parser.add_argument("--quick", action="store_true", help="two CPythons, one profile, fewer runs: some minutes")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    parser.add_argument("--workdir", type=Path, help="folder for everything that is built (default: a temporary one)")
    arguments = parser.parse_args()
    if shutil.which("ccache") is None and shutil.which("sccache") is None:
        sys.exit("there is no ccache or sccache, so nothing could be warm: install one")
    pythons = find_pythons(arguments.python)[: 2 if arguments.quick else None]
    folder = arguments.workdir or Path(tempfile.mkdtemp(prefix="mlir-release-bench-"))
    os.environ["CCACHE_DIR"] = str(folder / "ccache")
    bench = Bench(sdk=Sdk.load(arguments.sdk), profile=arguments.profile, folder=folder.absolute())
    try:
        measure_all(bench, pythons, quick=arguments.quick)
        ratios = show(bench)
    finally:
        if arguments.workdir is None:
            shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        figures = {
            "cores": jobserver.usable_cores(),
            "llvm_version": bench.sdk.info.llvm_version,
            "runs": [asdict(run) for run in bench.runs],
            "sizes": [asdict(size) for size in bench.sizes],
            "ratios": ratios,
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
