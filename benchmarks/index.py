"""What the pages cost: to make them for 1,000 releases x 30 wheels, and to read them with pip.

``python benchmarks/index.py [--releases N] [--json FILE] [--window]``

1. The index from nothing and for one release more, beside dumb-pypi on the same files (from nothing, and told of the
   previous list).
2. What pip transfers and how long it takes, with and without the core-metadata attribute, on the simple index and on a
   page for ``-f``: a plain ``pip download mlir``, and one in which the newest releases' requirements can't be met, so
   that pip has to look at the metadata of one release after the other. Wheels have the size of real ones.

With ``--window`` only: how large the shared pages are, and what reading them costs pip, with all snapshots and with
those of ``linked-days`` (60 wheels each, two a day).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from msgspec import structs

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.python import venv
from mlir_release.release.instructions.install_check import run_pip
from mlir_release.release.model.manifest import Manifest, WheelEntry
from mlir_release.release.transaction.assets import read_wheel
from tests.paper_forge import PaperForge, make_index, many
from tests.serving import Served, serve
from tests.wheel_factory import PYTHON, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Releases whose requirements the backtracking case can't meet.
UNMEETABLE = 8
WHEEL_BYTES = 18_000_000


@dataclass(frozen=True)
class Making:
    """One way of making the pages."""

    tool: str
    case: str
    seconds: float  #: wall
    cpu: float  #: seconds, user and system, children too
    ratio: float  #: of ``cpu``, to dumb-pypi's from nothing
    files: int
    bytes: int


@dataclass(frozen=True)
class Reading:
    """One call of pip."""

    page: str
    case: str
    core_metadata: bool
    links: int
    seconds: float
    transferred: int  #: bytes of all bodies that the server sent
    ratio: float  #: to the bytes transferred without core metadata


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of ``action``; the latter with its child processes'."""
    wall, before = time.perf_counter(), os.times()
    action()
    after = os.times()
    return time.perf_counter() - wall, sum(after[:4]) - sum(before[:4])


def size_of(folder: Path) -> tuple[int, int]:
    """Number of files in a folder, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


# -- making ----------------------------------------------------------------------------------------------------------


def bench_making(count: int, work: Path) -> list[Making]:
    """Both tools, from nothing and for one release more."""
    manifests = many(count)
    forge = PaperForge()
    for manifest in manifests[:-1]:
        forge.add(manifest)
    rows: list[tuple[str, str, tuple[float, float], Path]] = []
    site = work / "site"
    one_less = work / "before"
    make_index(forge, one_less)  # also warms imports up, for neither side pays them
    forge.add(manifests[-1])
    rows.append(("mlir-release", "from nothing", timed(lambda: make_index(forge, site)), site))
    more = timed(lambda: make_index(forge, one_less))
    rows.append(("mlir-release", "one release more", more, one_less))
    same = timed(lambda: make_index(forge, one_less))
    rows.append(("mlir-release", "nothing new", same, one_less))
    rows += dumb_pypi(manifests, work)
    reference = next(cpu for tool, case, (_, cpu), _ in rows if (tool, case) == ("dumb-pypi", "from nothing"))
    return [
        Making(tool, case, round(wall, 3), round(cpu, 3), round(cpu / reference, 3), *size_of(folder))
        for tool, case, (wall, cpu), folder in rows
    ]


def dumb_pypi(manifests: Sequence[Manifest], work: Path) -> list[tuple[str, str, tuple[float, float], Path]]:
    """dumb-pypi's own command on the same files."""
    lists = {}
    for name, chosen in (("previous", manifests[:-1]), ("all", manifests)):
        lists[name] = work / f"{name}.jsonl"
        lists[name].write_text("".join(map(package_lines, chosen)))
    output = work / "dumb"

    def run(*arguments: str) -> None:
        command = [sys.executable, "-m", "dumb_pypi.main", "--no-generate-timestamp", "--packages-url", "../../files"]
        subprocess.run([*command, "--output-dir", str(output), *arguments], check=True, stdout=subprocess.DEVNULL)

    run("--package-list-json", str(lists["previous"]))
    told = ("--previous-package-list-json", str(lists["previous"]))
    more = timed(lambda: run("--package-list-json", str(lists["all"]), *told))
    shutil.rmtree(output)
    nothing = timed(lambda: run("--package-list-json", str(lists["all"])))
    return [
        ("dumb-pypi", "from nothing", nothing, output),
        ("dumb-pypi", "one release more", more, output),
    ]


def package_lines(manifest: Manifest) -> str:
    """A release's wheels in dumb-pypi's list format."""
    return "".join(
        json.dumps(
            {
                "filename": wheel.filename,
                "hash": f"sha256={wheel.sha256}",
                "requires_python": wheel.requires_python,
                "requires_dist": list(wheel.requires_dist),
                "core_metadata": f"sha256={wheel.metadata_sha256}",
                "upload_timestamp": int(manifest.created.timestamp()),
            }
        )
        + "\n"
        for wheel in manifest.wheels
    )


# -- reading ---------------------------------------------------------------------------------------------------------


def bench_reading(count: int, work: Path) -> list[Reading]:
    """pip on the pages, over HTTP on the loopback interface."""
    files = work / "files"
    python = venv.create(work / "environment", Path(sys.executable), pip=True).python
    subprocess.run([str(python), "-m", "pip", "install", "-q", *newest_pip(work)], check=True)
    with serve(work) as served:
        forge = PaperForge(base=f"{served.url}/files")
        manifests = many(count)
        for number, manifest in enumerate(manifests):
            # Real files for the releases that pip can come to; for the others, links are enough.
            real = number >= count - UNMEETABLE - 1
            forge.add(with_files(manifest, files, met=number == count - UNMEETABLE - 1) if real else manifest)
        make_wheel_of("dep", "1.0", work / "deps")
        found: list[Reading] = []
        for core_metadata in (False, True):
            name = f"site-{'with' if core_metadata else 'without'}"
            make_index(forge, work / name, base_url=f"{served.url}/{name}", core_metadata=core_metadata)
            pages = {
                "simple index": (("--index-url", f"{served.url}/{name}/snapshots/simple/"), count),
                "-f page (90 days)": (("--no-index", "-f", f"{served.url}/{name}/snapshots/latest/"), min(count, 181)),
            }
            for page, (options, releases) in pages.items():
                for case, requirements in (
                    ("pip download mlir", ("mlir>=20200101",)),
                    (f"{UNMEETABLE} newest don't fit", ("mlir>=20200101", "dep==1.0")),
                ):
                    seconds, transferred = measure(served, python, [*options, "-f", str(work / "deps")], requirements)
                    without = next(
                        (r.transferred for r in found if (r.page, r.case, r.core_metadata) == (page, case, False)),
                        transferred,
                    )
                    links = releases * 30
                    found.append(
                        Reading(page, case, core_metadata, links, seconds, transferred, round(transferred / without, 3))
                    )
    return found


@dataclass(frozen=True)
class Window:
    """A shared page, with so many days of snapshots."""

    days: int
    page: str
    links: int
    bytes: int
    compressed: int  #: by gzip, as GitHub Pages serves it
    cpu: float  #: seconds of pip


def bench_window(count: int, work: Path, windows: Sequence[int] = (3650, 180, 90, 30)) -> list[Window]:
    """The shared pages of ``count`` snapshots, and one ``pip index versions mlir`` on each."""
    python = venv.create(work / "environment", Path(sys.executable), pip=True).python
    subprocess.run([str(python), "-m", "pip", "install", "-q", *newest_pip(work)], check=True)
    forge = PaperForge()
    for manifest in many(count, distributions=("mlir", "mlir-core")):
        forge.add(manifest)
    found = []
    with serve(work) as served:
        for days in windows:
            make_index(forge, work / f"{days}", linked_days=days)
            site = f"{served.url}/{days}/snapshots"
            for page, options in (
                ("simple/mlir", ("--index-url", f"{site}/simple/")),
                ("latest", ("--no-index", "-f", f"{site}/latest/")),
            ):
                content = (work / f"{days}" / "snapshots" / page / "index.html").read_bytes()
                cpu = measure_pip(python, "index", "versions", "mlir", "--pre", "--no-cache-dir", *options)
                links = content.count(b"#sha256=")
                found.append(Window(days, page, links, len(content), len(gzip.compress(content)), cpu))
    return found


def measure_pip(python: Path, *arguments: str) -> float:
    """CPU seconds of one call of pip."""
    process = subprocess.Popen([str(python), "-m", "pip", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"pip {' '.join(arguments)} failed")
    return round(usage.ru_utime + usage.ru_stime, 2)


def show_window(rows: Sequence[Window], count: int) -> None:
    """A table of :func:`bench_window`."""
    console.table(
        [">days", "page", ">links", ">size", ">gzip", ">pip's CPU seconds"],
        [
            [
                row.days,
                row.page,
                row.links,
                format_bytes(row.bytes),
                format_bytes(row.compressed),
                f"{row.cpu:.2f}",
            ]
            for row in rows
        ],
        title=f"The shared pages: {count} snapshots x 60 wheels",
    )


def newest_pip(work: Path) -> list[str]:
    """The pip that this process's environment has, so that all machines compare the same thing."""
    wheel = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    return [f"pip=={wheel}"]


def with_files(manifest: Manifest, files: Path, *, met: bool) -> Manifest:
    """The manifest with a real file behind this CPython's Linux wheel; ``met``: its requirements can be met."""
    wheels = []
    for entry in manifest.wheels:
        if entry.python == PYTHON and entry.platforms == ("manylinux_2_28_x86_64",):
            path = make_wheel(
                files / manifest.tag,
                tag=manifest.tag,
                version=manifest.version,
                requires=("dep==1.0" if met else "dep>=2",),
                padding=WHEEL_BYTES,
            )
            wheel = read_wheel(path)
            Path(f"{path}.metadata").write_bytes(wheel.metadata)
            assert isinstance(wheel.row, WheelEntry)
            wheels.append(structs.replace(wheel.row, target=entry.target))
        else:
            wheels.append(entry)
    return structs.replace(manifest, wheels=tuple(wheels))


def make_wheel_of(name: str, version: str, folder: Path) -> None:
    """A dependency, in two versions."""
    for one in (version, "2.0"):
        made = make_wheel(folder, distribution=name, version=one)
        assert made.is_file()


def measure(served: Served, python: Path, options: Sequence[str], requirements: Sequence[str]) -> tuple[float, int]:
    """One ``pip download``: wall seconds and bytes that the server sent."""
    served.requests.clear()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = run_pip(python, "download", "--no-cache-dir", "--dest", folder, *options, *requirements)
        seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return round(seconds, 2), served.transferred


def main() -> None:
    """Measure, and print tables (and JSON)."""
    parser = argparse.ArgumentParser(description="What the pages cost to make and to read.")
    parser.add_argument("--releases", type=int, default=1000, metavar="N", help="releases of 30 wheels [1000]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--window", action="store_true", help="only what linked-days makes of the shared pages")
    options = parser.parse_args()
    if options.window:
        with tempfile.TemporaryDirectory(prefix="mlir-release-bench-") as folder:
            rows = bench_window(options.releases, Path(folder))
        show_window(rows, options.releases)
        if options.json:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        return
    cores = os.cpu_count()
    with tempfile.TemporaryDirectory(prefix="mlir-release-bench-") as folder:
        work = Path(folder)
        making = bench_making(options.releases, work)
        reading = bench_reading(options.releases, work)
    made = [
        [
            row.tool,
            row.case,
            f"{row.seconds:.2f}",
            f"{row.cpu:.2f}",
            f"{row.ratio:.2f}",
            row.files,
            format_bytes(row.bytes),
        ]
        for row in making
    ]
    machine = f"{cores} cores, CPython {platform.python_version()}"
    console.table(
        ["tool", "case", ">seconds", ">CPU seconds", ">ratio", ">files", ">size"],
        made,
        title=f"Making the pages: {options.releases} releases x 30 wheels; {machine}",
    )
    console.table(
        ["page", "case", "core metadata", ">links", ">seconds", ">transferred", ">ratio"],
        [
            [
                row.page,
                row.case,
                "yes" if row.core_metadata else "no",
                row.links,
                f"{row.seconds:.1f}",
                format_bytes(row.transferred),
                f"{row.ratio:.2f}",
            ]
            for row in sorted(reading, key=lambda row: (row.page, row.case, row.core_metadata))
        ],
        title=f"Reading them with pip (wheels of {format_bytes(WHEEL_BYTES)})",
    )
    if options.json:
        data = {"releases": options.releases, "cores": cores, "making": making, "reading": reading}
        options.json.write_text(json.dumps(data, default=asdict, indent=1) + "\n")


if __name__ == "__main__":
    main()
