"""Serve a made Sigstore until it is stopped.

``python -m tests.sigstore FOLDER [CLAIM=VALUE …]`` writes the roots into the folder, and prints the environment with
which a job signs there, one ``NAME=VALUE`` a line. Claims are those of the run, such as ``tag=snapshot-20261120.01``,
``repository=octo/releases``, ``commit=<sha>`` and ``server=http://127.0.0.1:8080``.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tests.sigstore.services import serve_sigstore


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.sigstore", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("claims", nargs="*", metavar="CLAIM=VALUE")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    claims = dict(claim.split("=", 1) for claim in options.claims)
    with serve_sigstore(options.folder, port=options.port) as services:
        print("\n".join(f"{name}={value}" for name, value in services.environment(**claims).items()), flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
