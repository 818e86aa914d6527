"""What a machine in this network has and debootstrap's root lacks: names, certificates, settings of apt and pip.

A machine here was set up by whoever runs the network: its resolver, its own certification authority, its proxies. A new
root gets the same, by the same means that such a person would use, and nothing more: the toolkit must not need it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

#: Variables that say how to reach the network. Values that are files or folders are copied into the root.
_VARIABLES = re.compile(r"PIP_\w+|(?:https?|ftp|all|no)_proxy|\w+_CA_BUNDLE|SSL_CERT_(?:FILE|DIR)|GIT_SSL_CAINFO", re.I)
#: apt's settings that say the same.
_APT_SETTINGS = re.compile(r"Acquire::(?:https?::|Check-)")
#: Where an administrator puts certificates; ``update-ca-certificates`` adds them to the distribution's own.
_CERTIFICATES = Path("usr/local/share/ca-certificates")
_PIP_FILES = ("etc/pip.conf", "root/.config/pip/pip.conf", "root/.pip/pip.conf")
#: Made by ``update-ca-certificates`` in the root itself.
_GENERATED = Path("/etc/ssl/certs")


def connect(root: Path) -> dict[str, str]:
    """Set up a root for this machine's network; returns the variables that its programs need for that."""
    for name in ("etc/resolv.conf", "etc/hosts", *_PIP_FILES):
        _copy(Path("/") / name, root / name)
    for certificate in (Path("/") / _CERTIFICATES).glob("*.crt"):
        _copy(certificate, root / _CERTIFICATES / certificate.name)
    if (root / "usr/sbin/update-ca-certificates").exists():
        subprocess.run(["chroot", root, "/usr/sbin/update-ca-certificates"], check=True, capture_output=True)
    dump = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True)
    settings = [line for line in dump.stdout.splitlines() if _APT_SETTINGS.match(line)]
    (root / "etc/apt/apt.conf.d/90network").write_text("".join(f"{line}\n" for line in settings), encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
    for value in variables.values():
        path = Path(value)
        if path.is_absolute() and path.exists() and not path.is_relative_to(_GENERATED):
            _copy(path, root / path.relative_to("/"))
    return variables


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.unlink(missing_ok=True)  # a link (systemd's resolv.conf) would be followed out of the root
        shutil.copyfile(source, target)
