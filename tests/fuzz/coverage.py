"""A reader again, guided by coverage: ``python -m tests.fuzz.coverage READER SEED FINDINGS SECONDS``.

Atheris keeps the inputs that reach new code. What it tries comes half from its own mutations and half from ours, which
know the format. It prints each new cause on one line, as JSON; the inputs are kept in the folder FINDINGS.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

with atheris.instrument_imports(include=["mlir_release"]):
    from tests.fuzz import campaign, readers
    from tests.fuzz.mutation import mutate

#: Bytes of an input. Libfuzzer makes them smaller by itself.
LONGEST = 1 << 20


def main() -> None:
    """See the module."""
    name, path, findings, seconds = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    reader = next(reader for reader in readers.READERS if reader.name == name)
    causes: set[str] = set()
    out = sys.stdout
    findings.mkdir(parents=True, exist_ok=True)

    def one(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            said = readers.attempt(reader, path)
        if said is None:
            return
        cause = campaign.cause_of(said)
        if cause not in causes:
            causes.add(cause)
            kept = findings / hashlib.sha256(f"{name} {cause}".encode()).hexdigest()[:12]
            kept.write_bytes(data)
            print(json.dumps([cause, kept.name, said[-4_000:]]), file=out, flush=True)

    def change(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            changed: bytes = atheris.Mutate(data, longest)
            return changed
        return mutate(data, path.name, rng)[:longest]

    seeds = findings / f".seeds-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    seeds.mkdir(exist_ok=True)
    (seeds / "sound").write_bytes(path.read_bytes())
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        "-len_control=0",
        "-timeout=30",
        "-rss_limit_mb=1500",
        "-verbosity=0",
    ]
    options += [f"-artifact_prefix={findings}/died-", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(seeds)], one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
