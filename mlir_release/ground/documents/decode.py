"""The bridge to msgspec: JSON and TOML documents become structs, and a wrong value is named by its path.

msgspec says "Expected `str` matching regex '…' - at `$.wheels[3].sha256`"; a person reads "wheels[3].sha256 is 'x', not
a SHA-256 of 64 hex digits". The words come from the struct itself: the ``title`` of a constrained type says what its
values are, and the ``description`` of a field is what the published JSON Schema says about it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")


class MalformedError(ValueError):
    """The value at ``path`` is not what it should be.

    :param path: ``wheels[3].sha256``; empty for the document itself
    :param problem: continues the sentence that the path begins
    :param hint: what to write instead; may be empty
    """

    def __init__(self, path: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{path or 'the document'} {problem}" + (f"; {hint}" if hint else ""))
        self.path = path
        self.problem = problem
        self.hint = hint


def alternatives(word: str, options: Iterable[str]) -> str:
    """What to write instead of a mistyped ``word``: the option that looks like it first, then all of them."""
    import difflib

    known = list(options)
    close = difflib.get_close_matches(word, known, 1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"there are: {', '.join(known)}"


# -- types of values --------------------------------------------------------------------------------------------------


def text(pattern: str, title: str) -> Meta:
    """The constraint of a string that ``pattern`` matches whole; ``title`` says what it is, with an article."""
    return Meta(pattern=f"^(?:{pattern})$(?!\n)", title=title)  # in Python, $ alone also matches before a last newline


def doc(description: str) -> Meta:
    """What a key means, in the document's JSON Schema."""
    return Meta(description=description)


def one_of(names: Iterable[str]) -> Meta:
    """The strings that the JSON Schema allows; :func:`check_choice` refuses others."""
    return Meta(extra_json_schema={"enum": list(names)})


def check_choice(key: str, value: str, names: Iterable[str]) -> None:
    """Refuse a value that is not one of ``names``. :raises MalformedError:"""
    if value not in names:
        raise MalformedError(key, *_unknown(value, names))


def _unknown(value: object, names: Iterable[str]) -> tuple[str, str]:
    return f"is {value!r}, which is not known", alternatives(str(value), names)


Sha256 = Annotated[str, text("[0-9a-f]{64}", "a SHA-256 of 64 hex digits")]
Sha256OrEmpty = Annotated[str, text("(?:[0-9a-f]{64})?", "a SHA-256 of 64 hex digits, or empty")]
Sha1 = Annotated[str, text("[0-9a-f]{40}", "a commit of 40 hex digits")]
Sha1OrEmpty = Annotated[str, text("(?:[0-9a-f]{40})?", "a commit of 40 hex digits, or empty")]

#: The plain name of a wheel: no folders, nothing that a URL would need quoted but ``+``.
WheelName = Annotated[str, text(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]{0,250}\.whl", "a plain file name that ends in .whl")]

#: The plain name of a source distribution.
SourceName = Annotated[
    str, text(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]{0,247}\.tar\.gz", "a plain file name that ends in .tar.gz")
]

#: The name of a file that pins a distribution of a release: requirements, or PEP 751's.
LOCK_NAME = r"requirements(?:-[a-z0-9-]{1,100})?\.txt|pylock(?:\.[a-z0-9-]{1,100})?\.toml"
LockName = Annotated[str, text(LOCK_NAME, "a name like requirements.txt or pylock.toml")]

#: A name that is safe as a path's last part, in a URL, a line of a file or an argument, on any system: no folder, no
#: leading dot or dash, nothing to quote but ``+``.
_PLAIN = r"[A-Za-z0-9_][A-Za-z0-9_.+!~@=-]{0,254}"
PlainName = Annotated[str, text(_PLAIN, "a plain file name")]
PlainNameOrEmpty = Annotated[str, text(f"(?:{_PLAIN})?", "a plain file name, or empty")]

#: The name of a distribution. Source: packaging.python.org, "Names and normalization".
ProjectName = Annotated[str, text(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", "a name of a distribution")]

#: The address of a repository on a server of GitHub's.
_REPOSITORY = r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9._-]+"
_ADDRESS = "a repository's address, https://github.com/OWNER/NAME"
RepositoryUrlOrEmpty = Annotated[str, text(f"(?:{_REPOSITORY})?", f"{_ADDRESS}, or empty")]

#: Text that becomes a part of a line in a file: no line break as any reader sees them, no other control character.
LINE_LIMIT = 1000
Line = Annotated[str, text(rf"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{{0,{LINE_LIMIT}}}", "one line of text")]

#: A variable that foreign programs may see. Never the job's own tokens and files: they are not for those programs.
VariableName = Annotated[
    str,
    text(r"(?!(?:ACTIONS|GH|GITHUB|MLIR_RELEASE|TWINE)_)[A-Za-z_][A-Za-z0-9_]*", "the name of a variable of your own"),
]

#: A number of things, or bytes.
Count = Annotated[int, Meta(ge=0)]


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is a :data:`PlainName`."""
    return re.fullmatch(_PLAIN, name) is not None


# -- writing ----------------------------------------------------------------------------------------------------------


def builtins(document: Struct, *, optional: Iterable[str] = ()) -> dict[str, Any]:
    """A document as plain data.

    :param optional: fields, at any depth, that are left out while they are empty, so that what does without them is
        written as before they existed
    """
    names = frozenset(optional)

    def pruned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pruned(item) for name, item in value.items() if item or name not in names}
        return [pruned(item) for item in value] if isinstance(value, list | tuple) else value

    data: dict[str, Any] = pruned(msgspec.to_builtins(document))
    return data


# -- reading ----------------------------------------------------------------------------------------------------------


#: Bytes that a document has at most. The largest manifest that a release's 1000 assets allow has two million.
DOCUMENT_LIMIT = 16_000_000

#: It may have a value in so many bytes of that limit: a small value takes many times its bytes of memory.
_BYTES_A_VALUE = 16

#: Bytes of what tools write about whole builds: compile commands of all of LLVM, results of all of its tests.
BUILD_LIMIT = 256_000_000

#: Lists and tables that may be inside each other. Ours have six levels; Python gives up at about a thousand.
DEPTH_LIMIT = 50


def parse_json(content: str | bytes, *, limit: int = DOCUMENT_LIMIT) -> Any:
    """A JSON document (RFC 8259) as plain data: the only place that parses JSON which others may have written.

    :param limit: bytes that it may have
    :raises MalformedError: it is not JSON, too large, or nested deeper than :data:`DEPTH_LIMIT`
    """
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    _check_size(data, limit)
    if sum(map(data.count, (b",", b"[", b"{"))) > limit // _BYTES_A_VALUE:
        raise MalformedError("", f"has more than {limit // _BYTES_A_VALUE:,} values")
    try:
        return _shallow(msgspec.json.decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise error if isinstance(error, MalformedError) else MalformedError("", f"is not JSON: {error}") from None


#: Bytes that a TOML document has at most, and each of its lines: tomllib's time and memory grow with the square of a
#: dotted key's parts, and 400,000 parts took all the memory of a machine. Within these limits it needs two seconds.
TOML_LIMIT, TOML_LINE_LIMIT = 256_000, 1000


_NUL = re.compile(rb"\\u0000|\\U00000000")


def parse_toml(content: str | bytes) -> dict[str, Any]:
    """A TOML document as plain data: the only place that parses TOML which others may have written.

    :raises MalformedError: as :func:`parse_json` does, or a line is too long
    """
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    _check_size(data, TOML_LIMIT)
    for number, line in enumerate(data.split(b"\n"), 1):
        if len(line) > TOML_LINE_LIMIT:
            raise MalformedError("", f"has {len(line):,} bytes in line {number}", f"{TOML_LINE_LIMIT:,} are allowed")
        if _NUL.search(line):  # as no path, address or argument may, and what we configure are those
            raise MalformedError("", f"has a NUL character in line {number}")
    try:
        found: dict[str, Any] = _shallow(tomllib.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise MalformedError("", f"is not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:  # tomllib.TOMLDecodeError is a ValueError
        raise error if isinstance(error, MalformedError) else MalformedError("", f"is not TOML: {error}") from None
    return found


def _check_size(data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise MalformedError("", f"has {len(data):,} bytes, and may have {limit:,}")


def _shallow(data: Any) -> Any:
    """The same data. Without recursion, which is what deep data exhausts. :raises MalformedError:"""
    level = [data]
    for _ in range(DEPTH_LIMIT):
        containers = [value for value in level if isinstance(value, dict | list)]
        if not containers:
            return data
        level = [inner for outer in containers for inner in (outer.values() if isinstance(outer, dict) else outer)]
    raise MalformedError("", f"is nested deeper than {DEPTH_LIMIT} levels")


def from_json(content: str | bytes, kind: type[T], *, limit: int = DOCUMENT_LIMIT) -> T:
    """Read a JSON document. :raises MalformedError: for the first mistake"""
    return convert(parse_json(content, limit=limit), kind)


def from_large_json(content: bytes | bytearray, kind: type[T]) -> T:
    """Read a JSON document of the toolkit's own that may have more values than :func:`from_json` takes.

    What the type does not name is passed over, and takes no memory. The caller has a bound for its size.

    :raises MalformedError: without a path
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedError("", f"can't be read: {error}") from None


def from_toml(content: str | bytes, kind: type[T]) -> T:
    """Read a TOML document. :raises MalformedError: for the first mistake"""
    return convert(parse_toml(content), kind, table="a table")


def convert(data: object, kind: type[T], *, table: str = "an object") -> T:
    """Check data that a parser returned. A struct whose tag is ``schema`` is read in that version only.

    :param table: what the format calls a mapping
    :raises MalformedError: for the first mistake
    """
    config = getattr(kind, "__struct_config__", None)
    if config is not None and config.tag_field == "schema" and isinstance(data, dict):
        found = data.get("schema")
        if found is None:
            raise MalformedError("schema", "is missing")
        if found != config.tag or type(found) is not type(config.tag):  # True and 1.0 equal 1
            problem = f"is {found}, and this version of mlir-release reads {config.tag}"
            raise MalformedError("schema", problem, "use a newer mlir-release")
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _explain(error, data, kind, table) from None


# -- mistakes ---------------------------------------------------------------------------------------------------------

_PLACE = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (?P<problem>missing required|contains unknown) field `(?P<name>.*)`")
_NOUNS = {str: "a string", int: "a whole number", float: "a number", bool: "a boolean (true or false)"}


def _explain(error: msgspec.ValidationError, data: Any, kind: Any, table: str) -> MalformedError:
    """msgspec's error in our words; it says where, and the value and its type are looked up there."""
    match = _PLACE.fullmatch(str(error))
    assert match is not None
    value, path = data, ""
    for step in _STEP.finditer(match["path"] or ""):
        kind = _bare(kind, value)
        key: Any = step["name"] or step["index"]
        if key == "...":  # msgspec does not name the entry of a mapping
            key = _wrong_entry(value, 1, kind)
        elif step["index"]:
            key = int(key)
        path = f"{path}[{key}]" if isinstance(key, int) else _join(path, key)
        value, kind = value[key], _inner(kind, key)
    if isinstance(error.__cause__, MalformedError):  # raised by a struct about one of its fields
        cause = error.__cause__
        return MalformedError(_join(path, cause.path), cause.problem, cause.hint)
    if match["key"]:
        key = _wrong_entry(value, 0, _bare(kind, value))
        return MalformedError(_join(path, key), f"is not {_title(get_args(_bare(kind, value))[0])}")
    if field := _FIELD.fullmatch(match["what"]):
        path = _join(path, field["name"])
        if field["problem"] == "missing required":
            return MalformedError(path, "is missing")
        struct = _bare(_bare(kind, value))
        tag = struct.__struct_config__.tag_field
        known = [*filter(None, [tag]), *(each.encode_name for each in msgspec.structs.fields(struct))]
        return MalformedError(path, "is an unknown key", alternatives(field["name"], known))
    return MalformedError(path, *_problem(value, kind, table))


def _problem(value: object, kind: Any, table: str) -> tuple[str, str]:
    """What is wrong with a value, and what would be right."""
    bare = _bare(kind, value)
    if value is None:
        return "is missing", ""
    if get_origin(bare) is Literal:
        return _unknown(value, map(str, get_args(bare)))
    listing = get_origin(bare) in (list, tuple)
    if (listing and value == []) or (bare is str and value == ""):
        return "is empty", ""
    if title := _title(kind):
        return f"is {value!r}, not {title}", ""
    if bare in _NOUNS:
        return f"is not {_NOUNS[bare]}", ""
    return f"is not {'a list' if listing else table}", ""


def _join(path: str, key: str) -> str:
    return ".".join(filter(None, (path, key)))


def _bare(kind: Any, value: object = None) -> Any:
    """A type without its annotations, and without ``None``; of several, the one that takes lists if ``value`` is one,
    or tables if it is a table."""
    while (origin := get_origin(kind)) in (Annotated, Union, UnionType):
        parts = [part for part in get_args(kind) if part is not type(None)]
        kind = parts[0]
        for part, bare in [(part, _bare(part)) for part in parts if origin is not Annotated]:
            table = isinstance(bare, type) and (issubclass(bare, Struct) or is_dataclass(bare))
            if (isinstance(value, dict) and table) or (isinstance(value, list) and get_origin(bare) in (list, tuple)):
                kind = part
                break
    return kind


def _title(kind: Any) -> str:
    """The title of a constrained type; empty if it has none."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    titles = [part.title for part in getattr(kind, "__metadata__", ()) if isinstance(part, Meta) and part.title]
    return titles[-1] if titles else ""


def _inner(kind: Any, key: str | int) -> Any:
    """The type of a field, of a mapping's values, or of a list's items."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == key)
    if is_dataclass(kind):
        return get_type_hints(kind, include_extras=True)[str(key)]
    return get_args(kind)[1 if isinstance(key, str) else 0]


def _wrong_entry(mapping: Mapping[str, object], part: Literal[0, 1], kind: Any) -> str:
    """The first key of a mapping that is wrong (``part`` 0), or that has a wrong value (1)."""
    for entry in mapping.items():
        try:
            msgspec.convert(entry[part], get_args(kind)[part])
        except msgspec.ValidationError:
            return entry[0]
    raise AssertionError("every entry is right")
