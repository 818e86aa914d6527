"""``integrate.toml``: how a downstream carries LLVM, and how it is walked forward. Every mistake is one clear error."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlir_release.errors import UsageError
from mlir_release.integrate.strategy import STRATEGIES

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE = "integrate.toml"

#: Subjects of upstream commits that can't break a downstream: tidying and documentation.
DEFAULT_IGNORED = (r"^\[clang-tidy\]", r"^\[(mlir\]\[)?(docs?|NFC\]\[docs?)\]", r"^\[clang-format\]")


@dataclass(frozen=True, kw_only=True)
class ExportTarget:
    """Where patched commits of one submodule are made reachable. ``path`` is empty for LLVM itself."""

    remote: str  #: URL, or the name of a remote in that repository
    branch: str
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The validated file. See ``docs/integrate.md`` for every key."""

    upstream_url: str
    upstream_branch: str = "main"
    main: str = "main"
    remote: str = "origin"
    submodule: str = ""  #: path of the submodule that is LLVM; or else:
    pin_file: str = ""  #: path of the file that holds LLVM's commit
    checkout: str = ""  #: with a pin file: where in the tree the sources are put for a smoke test
    paths: tuple[str, ...] = ("mlir", "utils/bazel")
    ignore: tuple[str, ...] = DEFAULT_IGNORED
    command: tuple[str, ...] = ()
    timeout: float = 5400.0  #: seconds
    attempts: int = 2
    environment: tuple[str, ...] = ()  #: variables that a verdict depends on
    export: ExportTarget | None = None
    also_export: tuple[ExportTarget, ...] = field(default=())
    branch: str = "integrates/llvm-{date}"
    strategy: str = "adaptive"
    width: int = 1
    ci_workflow: str = ""
    notify_variable: str = "MLIR_RELEASE_NOTIFY"

    @property
    def carried_at(self) -> str:
        """The path in the outer tree that names LLVM's commit."""
        return self.submodule or self.pin_file


def load_config(directory: Path) -> Config:
    """Read ``integrate.toml`` in ``directory``. :raises UsageError: naming the first mistake."""
    path = directory / CONFIG_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            "integrate-config-missing",
            f"there is no {CONFIG_FILE} in this repository",
            where=str(directory),
            remedy="write one (docs/integrate.md begins with a template) and commit it on the main branch",
        ) from None
    return read_config(content, where=str(path))


def read_config(content: bytes, *, where: str) -> Config:
    """The configuration in a file's content. :raises UsageError: naming the first mistake."""
    try:
        return parse_config(tomllib.loads(content.decode("utf-8")), where=where)
    except UnicodeDecodeError as error:
        raise _mistake(where, f"the file is not UTF-8 ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise _mistake(where, f"the file is not TOML: {error}") from None


def _mistake(where: str, what: str, *, why: str = "", remedy: str = "") -> UsageError:
    return UsageError("integrate-config-invalid", what, where=where, why=why, remedy=remedy or "correct the file")


class _Table:
    """Takes typed values out of a table, and complains about what is left."""

    def __init__(self, where: str, name: str, data: Any) -> None:
        self.where, self.name = where, name
        if not isinstance(data, dict):
            raise _mistake(where, f"[{name}] must be a table")
        self.data = dict(data)
        self.known: list[str] = []

    def take(self, key: str, kind: type, default: Any = None, *, required: bool = False) -> Any:
        self.known.append(key)
        if key not in self.data:
            if required:
                raise _mistake(self.where, f"[{self.name}] lacks the key {key!r}", remedy=f"add {key} = … to it")
            return default
        value = self.data.pop(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _mistake(self.where, f"{key} in [{self.name}] must be {_KINDS[kind]}, not {value!r}")
        return value

    def strings(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.take(key, list, None)
        if value is None:
            return default
        if not all(isinstance(item, str) for item in value):
            raise _mistake(self.where, f"{key} in [{self.name}] must be a list of strings")
        return tuple(value)

    def finish(self) -> None:
        if self.data:
            key = next(iter(self.data))
            raise _mistake(
                self.where,
                f"[{self.name}] has no key {key!r}" if self.name else f"there is no table [{key}]",
                why=f"known: {', '.join(self.known)}",
                remedy="correct the spelling, or remove it",
            )


_KINDS = {str: "a string", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


def parse_config(data: dict[str, Any], *, where: str) -> Config:
    """The configuration in a parsed TOML document. :raises UsageError:"""
    root = _Table(where, "", data)
    tables = {
        name: _Table(where, name, root.take(name, dict, {}))
        for name in ("upstream", "downstream", "track", "smoke", "export", "walk", "ci", "notify")
    }
    root.finish()
    upstream, downstream, track = tables["upstream"], tables["downstream"], tables["track"]
    smoke, walk = tables["smoke"], tables["walk"]
    command = smoke.data.get("command")
    config = Config(
        upstream_url=upstream.take("url", str, required=True),
        upstream_branch=upstream.take("branch", str, "main"),
        main=downstream.take("branch", str, "main"),
        remote=downstream.take("remote", str, "origin"),
        submodule=_path(where, "submodule", downstream.take("submodule", str, "")),
        pin_file=_path(where, "pin-file", downstream.take("pin-file", str, "")),
        checkout=_path(where, "checkout", downstream.take("checkout", str, "")),
        paths=tuple(_path(where, "paths", path) for path in track.strings("paths", Config.paths)),
        ignore=track.strings("ignore-subjects", DEFAULT_IGNORED),
        command=tuple(shlex.split(smoke.take("command", str)))
        if isinstance(command, str)
        else smoke.strings("command", ()),
        timeout=60.0 * smoke.take("timeout-minutes", float, 90.0),
        attempts=smoke.take("attempts", int, 2),
        environment=smoke.strings("environment", ()),
        export=_export(where, tables["export"]),
        also_export=_also_export(where, tables["export"]),
        branch=walk.take("branch", str, Config.branch),
        strategy=walk.take("strategy", str, Config.strategy),
        width=walk.take("width", int, 1),
        ci_workflow=tables["ci"].take("workflow", str, ""),
        notify_variable=tables["notify"].take("variable", str, Config.notify_variable),
    )
    for table in tables.values():
        table.finish()
    _check(config, where)
    return config


def _path(where: str, key: str, value: str) -> str:
    value = value.rstrip("/")
    if value.startswith(("/", "-", ":")) or ".." in value.split("/"):
        raise _mistake(where, f"{key} must be a path inside the repository, not {value!r}")
    return value


def _export(where: str, table: _Table) -> ExportTarget | None:
    remote = table.take("remote", str, "")
    branch = table.take("branch", str, "")
    if bool(remote) != bool(branch):
        raise _mistake(where, "[export] needs both remote and branch", remedy="give the fork's URL and a branch in it")
    return ExportTarget(remote=remote, branch=branch) if remote else None


def _also_export(where: str, table: _Table) -> tuple[ExportTarget, ...]:
    targets = []
    for data in table.take("also", list, []):
        also = _Table(where, "export.also", data)
        targets.append(
            ExportTarget(
                path=_path(where, "path", also.take("path", str, required=True)),
                remote=also.take("remote", str, required=True),
                branch=also.take("branch", str, required=True),
            )
        )
        also.finish()
    return tuple(targets)


def _check(config: Config, where: str) -> None:
    if bool(config.submodule) == bool(config.pin_file):
        raise _mistake(
            where,
            "[downstream] needs exactly one of submodule and pin-file",
            why="LLVM is carried either as a submodule or as a commit written in a file",
            remedy='for example submodule = "third_party/llvm-project"',
        )
    if config.checkout and config.submodule:
        raise _mistake(where, "checkout is for a pin file only; a submodule's sources are where the submodule is")
    if not config.command:
        raise _mistake(where, "[smoke] lacks the command", remedy='for example command = ["build_tools/smoke.sh"]')
    if not 1 <= config.attempts <= 10 or config.timeout <= 0 or not 1 <= config.width <= 256:
        raise _mistake(where, "attempts (1–10), timeout-minutes (> 0) or width (1–256) is out of bounds")
    if config.strategy not in STRATEGIES:
        raise _mistake(where, f"there is no strategy {config.strategy!r}", why=f"known: {', '.join(STRATEGIES)}")
    if config.branch.count("{date}") != 1 or not re.fullmatch(r"[\w./-]+", config.branch.replace("{date}", "")):
        raise _mistake(where, f"the branch template {config.branch!r} must contain {{date}} once and be a branch name")
    if not re.fullmatch(r"[A-Za-z_]\w*", config.notify_variable):
        raise _mistake(
            where,
            "variable in [notify] must be the name of an environment variable",  # what it is instead may be a secret
            remedy="put the addresses into the environment (in Actions, from a secret), and the variable's name here",
        )
    if not config.paths:
        raise _mistake(where, "[track] paths is empty: no commit would ever affect the downstream")
    for pattern in config.ignore:
        try:
            re.compile(pattern)
        except re.error as error:
            raise _mistake(where, f"ignore-subjects: {pattern!r} is no regular expression ({error})") from None
