#!/usr/bin/env python3
"""Write ``docs/errors.md`` from the source: every error id by topic, with what happened and what to do.

The texts are those of the code: string literals and f-strings where an error is made, placeholders shown as
``{name}``. Where a function or a class makes the error from its parameters, its callers are read, too. ``--write``
rewrites the page; without it, the exit code says whether the page is up to date. In both cases it says whether the ids
keep the rules: an id is written in one module, has one exit code, and every error has a remedy.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
PACKAGE = ROOT / "mlir_release"
#: Run before the package can be imported, so they have an error class of their own: of missing things of the machine.
SETUP, SETUP_ERROR = (ROOT / "tools" / "bootstrap.py", ROOT / "tools" / "install.py"), "SetupError"

sys.path.insert(0, str(ROOT))

from mlir_release import errors  # noqa: E402

HEADER = """# Errors

Every expected failure ends with one message that says what happened, where, why and what to do, and with one of the
ids below (in `--json` too), which scripts can rely on. An id has one cause. The exit code depends only on the
kind of error:

| exit code | meaning |
|---|---|
{codes}

`{{name}}` stands for a value that the message contains.
This page is generated from the code: `python tools/list_errors.py --write`.

{contents}
"""

#: Heading by where an error is made: the longest prefix of the module's path decides.
TOPICS = {
    "bootstrap": "Setting up: make",
    "install": "Setting up: workflows",
    "cli": "Command line",
    "forge/checkout": "Configuration files",
    "forge/files": "Configuration files",
    "model/filters": "Configuration files",
    "model/matrix": "Configuration files",
    "model/matrix_jobs": "Configuration files",
    "model/targets": "Configuration files",
    "cli/repository": "Configuration files",
    "model/platforms": "The machine",
    "model/pin": "Pins, revisions and tags",
    "model/release_tags": "Pins, revisions and tags",
    "snapshot": "Pins, revisions and tags",
    "forge": "Forge",
    "forge/github": "GitHub",
    "forge/local": "Local forge",
    "host": "The machine",
    "host/races": "Forge",
    "host/plugins": "Command line",
    "git": "Git",
    "sdk": "SDKs",
    "cli/sdk": "SDKs",
    "wheels": "Wheels",
    "cli/wheels": "Wheels",
    "testing": "Tests",
    "model": "Documents of a release",
    "release": "Drafts and publishing",
    "cli/release": "Drafts and publishing",
    "release/install": "Installing",
    "provenance": "Signatures",
    "index": "Index and pages",
    "extras/apidocs": "Index and pages",
    "pypi": "PyPI",
    "extras/conda": "Conda packages",
    "extras/downstream": "Downstream projects",
    "extras/cost": "Costs and issues",
    "issues": "Costs and issues",
    "extras/mlgo": "MLGO",
    "sdk/regalloc_model": "MLGO",
    "integrate": "Integrates",
    "cli/integrate": "Integrates",
    "integrate/export": "Integrates: carried patches and exports",
    "integrate/patch": "Integrates: carried patches and exports",
    "cli/integrate/patches": "Integrates: carried patches and exports",
    "doctor": "Doctor",
    "rehearsal": "Rehearsal",
}

#: More texts than this for one part of a message are shown as a placeholder.
FEW = 4

#: The parts of a message, which a function can have as parameters.
PARTS = ("what", "why", "remedy", "problem", "action", "purpose")

#: A letter outside of placeholders.
PROSE = re.compile(r"^(?:\{[^}]*\}|[^{a-z])*[a-z]")


@dataclass
class Entry:
    """All that the page says about one id."""

    id: str
    code: int
    modules: set[str] = field(default_factory=set)
    what: dict[str, None] = field(default_factory=dict)  #: in order, without repetitions
    remedy: dict[str, None] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """The heading that the entry belongs under."""
        module = min(self.modules)
        prefix = max((prefix for prefix in TOPICS if module.startswith(prefix)), key=len, default=None)
        if prefix is None:
            sys.exit(f"{module} raises {self.id}, but TOPICS in {Path(__file__).name} has no heading for it")
        return TOPICS[prefix]


@dataclass(frozen=True)
class Maker:
    """A function, or a class's ``__init__``, with parameters that an error's texts can come from."""

    module: str
    name: str  #: what callers call
    node: ast.FunctionDef
    only: ast.Call | None = None  #: the one call that counts, if it is known

    def bind(self, call: ast.Call) -> dict[str, ast.expr]:
        """The expressions that ``call`` gives for the parameters."""
        arguments = self.node.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        bound = dict(zip(names, call.args, strict=False))
        bound.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None})
        defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        defaults.update({a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d})
        return {**defaults, **bound}

    @property
    def parameters(self) -> set[str]:
        """Their names."""
        arguments = self.node.args
        return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}


class Source:
    """The package's syntax trees, and what texts expressions in them can have."""

    def __init__(self, package: Path, *scripts: Path) -> None:
        self.trees = {
            path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(package.rglob("*.py"))
            if "wheel" not in path.relative_to(package).parts
        }
        self.trees.update({script.stem: ast.parse(script.read_text(encoding="utf-8")) for script in scripts})
        self.constants: dict[tuple[str, str], str] = {}  #: by module, if private, and name
        self.calls: dict[str, list[tuple[str, ast.Call, Maker | None]]] = defaultdict(list)
        self.codes = {
            name: int(value.exit_code)
            for name, value in vars(errors).items()
            if inspect.isclass(value) and issubclass(value, errors.ReleaseError)
        } | {SETUP_ERROR: int(errors.ExitCode.ENVIRONMENT)}
        self.made: list[tuple[str, str, ast.Call, Maker | None]] = []  #: module, class, call, function around it
        for _ in range(3):  # subclasses of subclasses
            for tree in self.trees.values():
                self._find_classes(tree)
        for module, tree in self.trees.items():
            self._find_constants(module, tree)
            self._visit(module, tree, None, None)

    def _find_classes(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    if isinstance(base, ast.Name) and base.id in self.codes:
                        self.codes.setdefault(node.name, self.codes[base.id])

    def _find_constants(self, module: str, tree: ast.Module) -> None:
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and value.value is not None:
                known = value.value
                self.constants[module if target.id.startswith("_") else "", target.id] = (
                    f"{known:g}" if isinstance(known, float) else str(known)
                )

    def _visit(self, module: str, node: ast.AST, around: Maker | None, owner: str | None) -> None:
        if isinstance(node, ast.ClassDef):
            owner = node.name
        elif isinstance(node, ast.FunctionDef):
            around = Maker(module, owner if owner is not None and node.name == "__init__" else node.name, node)
        elif isinstance(node, ast.Call):
            name = str(getattr(node.func, "id", None) or getattr(node.func, "attr", ""))
            self.calls[name].append((module, node, around))
            if name == "__init__" and owner in self.codes:
                self.made.append((module, owner, node, around))
            elif name in self.codes:
                self.made.append((module, name, node, around))
        for child in ast.iter_child_nodes(node):
            self._visit(module, child, around, owner)

    def texts(self, node: ast.expr, around: Maker | None) -> list[str]:
        """The texts that ``node`` can have, placeholders for what is not known before it runs."""
        tests = {ast.dump(part.test) for part in ast.walk(node) if isinstance(part, ast.IfExp)}
        found: dict[str, None] = {}
        for outcomes in product((True, False), repeat=len(tests)):  # one outcome for all conditionals on one test
            found.update(dict.fromkeys(self._texts(node, around, dict(zip(tests, outcomes, strict=True)))))
        return list(found)

    def _texts(self, node: ast.expr, around: Maker | None, outcomes: dict[str, bool]) -> list[str]:
        match node:
            case ast.Constant(value=str(value)):
                return [value]
            case ast.JoinedStr(values=parts):
                found = [""]
                for part in parts:
                    inner = part.value if isinstance(part, ast.FormattedValue) else part
                    options = (
                        self._texts(inner, around, outcomes)
                        if not isinstance(inner, ast.BoolOp)
                        else [placeholder(inner)]
                    )
                    found = [start + end for start in found for end in options]
                return found
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                rights = self._texts(right, around, outcomes)
                return [start + end for start in self._texts(left, around, outcomes) for end in rights]
            case ast.IfExp(test=test, body=first, orelse=second):
                return self._texts(first if outcomes[ast.dump(test)] else second, around, outcomes)
            case ast.BoolOp(op=ast.Or(), values=[first, second]):
                return [*self._texts(first, around, outcomes), *self._texts(second, around, outcomes)]
            case ast.Name(id=name):
                return self._named(node, around) or [f"{{{name.strip('_')}}}"]
        return [placeholder(node)]

    def _named(self, node: ast.Name, around: Maker | None) -> list[str]:
        """The texts of a constant, of a local variable, or of a parameter that is a part of the message."""
        if around is None:
            return []
        constant = self.constants.get((around.module if node.id.startswith("_") else "", node.id))
        if constant is not None:
            return [constant]
        assigned = reaching(around.node.body, node) or []
        found = [text for value in assigned for text in self.texts(value, around)]
        if node.id in around.parameters and node.id in PARTS:
            bound = [(around.bind(call).get(node.id), caller) for call, caller in self.callers(around)]
            found += [text for value, caller in bound if value is not None for text in self.texts(value, caller)]
        return found if all(PROSE.search(text) for text in found) and len(set(found)) < FEW else []

    def callers(self, maker: Maker) -> list[tuple[ast.Call, Maker | None]]:
        """Where ``maker`` is called, each with the function around it; a private one is known to its module only."""
        private = maker.name.startswith("_")
        itself = replace(maker, only=None)
        return [
            (call, around)
            for module, call, around in self.calls[maker.name]
            if (module == maker.module or not private) and around != itself and maker.only in (None, call)
        ]

    def entries(self) -> dict[str, Entry]:
        """What the page says, by id. Exits with a message if an id breaks a rule."""
        found: dict[str, Entry] = {}
        for module, name, call, around in self.made:
            for identifier, given, inside in self._variants(call, around):
                entry = found.setdefault(identifier, Entry(identifier, self.codes[name]))
                if entry.code != self.codes[name]:
                    sys.exit(f"{identifier} has two exit codes: {entry.code} and {self.codes[name]} ({module})")
                entry.modules.add(module)
                whys = self.texts(given["why"], inside) if "why" in given else [""]
                reason = f": {whys[0]}" if len(whys) == 1 and whys[0] and not {"{", "…"} & set(whys[0]) else ""
                entry.what.update({text + reason: None for text in self.texts(given["what"], inside)})
                remedies = self.texts(given["remedy"], inside) if "remedy" in given else []
                entry.remedy.update({text: None for text in remedies if text})
        return found

    def _variants(self, call: ast.Call, around: Maker | None) -> list[tuple[str, dict[str, ast.expr], Maker | None]]:
        """The ids that ``call`` can make an error with, each with its texts, and the function that they are read in."""
        if not call.args or any(isinstance(argument, ast.Starred) for argument in call.args):
            return []
        given = dict(zip(("id", "what"), call.args, strict=False))
        given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None})
        if "what" not in given:
            return []
        if isinstance(given["id"], ast.Name) and around is not None and given["id"].id in around.parameters:
            return [
                (identifier, given, replace(around, only=use))
                for use, _ in self.callers(around)
                for identifier in literals(around.bind(use)[given["id"].id])
            ]
        return [(identifier, given, around) for identifier in literals(given["id"])]


def reaching(block: list[ast.stmt], use: ast.Name) -> list[ast.expr] | None:
    """What a local variable was assigned when it is used; None if ``use`` is not in ``block``."""
    values: list[ast.expr] = []
    for statement in block:
        inner = blocks(statement)
        if any(part is use for part in ast.walk(statement)):
            nested = [found for part in inner if (found := reaching(part, use)) is not None]
            return nested[0] or values if nested else values
        found = assigned(statement, use.id)
        if found:
            values = [*values, *found] if inner else found
    return None


def blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statements inside a statement, by branch."""
    branches = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    cases = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return [branch for branch in (*branches, *(case.body for case in cases)) if branch]


def assigned(statement: ast.stmt, name: str) -> list[ast.expr]:
    """The values that a statement, or one inside it, assigns to a variable."""
    found = []
    for part in ast.walk(statement):
        match part:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                found.append(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=False)
                found += [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name]
    return found


def literals(node: ast.expr) -> list[str]:
    """The string literals that an expression can be: one, or the two of a conditional."""
    match node:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.IfExp(body=first, orelse=second):
            return [*literals(first), *literals(second)]
    return []


def placeholder(node: ast.expr) -> str:
    """What stands for a value: the name of what is shown."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name.strip('_')}}}"
        case (
            ast.BoolOp(values=[inner, *_])
            | ast.Subscript(value=inner)
            | ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[])
        ):
            return placeholder(inner)
        case ast.Call(args=[ast.GeneratorExp(generators=[ast.comprehension(iter=inner)])]) | ast.Call(args=[inner]):
            return placeholder(inner)
    return "…"


def broken_rules(entries: dict[str, Entry]) -> list[str]:
    """What contradicts the rules: one id, one cause, written in one module; and every error says what to do."""
    several = [
        f"{entry.id} is written in several modules: {', '.join(sorted(entry.modules))}; "
        "let one function make the error, or give another cause another id"
        for entry in entries.values()
        if len(entry.modules) > 1
    ]
    without = [entry for entry in entries.values() if not entry.remedy]
    return several + [f"{entry.id} has no remedy ({min(entry.modules)})" for entry in without]


def render(entries: dict[str, Entry]) -> str:
    """The page."""
    topics: dict[str, list[Entry]] = {title: [] for title in dict.fromkeys(TOPICS.values())}
    for entry in sorted(entries.values(), key=lambda entry: entry.id):
        topics[entry.topic].append(entry)
    topics = {title: rows for title, rows in topics.items() if rows}
    used = {entry.code for entry in entries.values()}
    codes = "\n".join(f"| {code.value} | {MEANINGS[code]} |" for code in errors.ExitCode if code in used)
    contents = " · ".join(f"[{title}](#{anchor(title)})" for title in topics)
    page = [HEADER.format(codes=codes, contents=contents)]
    for title, rows in topics.items():
        page.append(f"\n## {title}\n| id | exit code | what happened | what to do |\n|---|---|---|---|\n")
        page += [f"| `{row.id}` | {row.code} | {cell(row.what)} | {cell(row.remedy)} |\n" for row in rows]
    return "".join(page)


#: What the page says of each exit code that an error can have.
MEANINGS = {
    errors.ExitCode.INTERNAL: "a bug in mlir-release",
    errors.ExitCode.USAGE: "arguments, configuration or an input file are wrong",
    errors.ExitCode.ENVIRONMENT: "the machine lacks something: a program, a CPython, disk space, network",
    errors.ExitCode.CONFLICT: "another process or person changed the same thing; re-running may help",
    errors.ExitCode.FORGE: "the forge refused a request or could not be reached",
    errors.ExitCode.VERIFICATION: "a wheel, SDK, release or index is not what it must be",
    errors.ExitCode.NEEDS_PERSON: "only a person can decide how to go on",
    errors.ExitCode.UNTESTABLE: "this commit can't be tested (as in `git bisect run`)",
}


def anchor(title: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return "".join(c for c in title.lower() if c.isalnum() or c in " -").replace(" ", "-")


def cell(texts: dict[str, None]) -> str:
    """Texts as the content of a table's cell; long lists of alternatives are cut to the first few."""
    kept = [" ".join(text.split()) for text in texts if PROSE.search(text)][:FEW] or ["the message says it"] * bool(
        texts
    )
    return "<br>".join(text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|") for text in kept)


def main() -> None:
    """Check the page and the ids, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the page")
    entries = Source(PACKAGE, *SETUP).entries()
    page = render(entries)
    if parser.parse_args().write:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        sys.exit("docs/errors.md is out of date: run python tools/list_errors.py --write")
    if broken := broken_rules(entries):
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
