# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, D103, UP031
"""Run by the interpreter under test, after ``pip install`` of the wheel alone: the first things that a user does.

Prints one JSON object a check: ``{"name": …, "ok": …, "message": …, "seconds": …}``. It runs on the oldest CPython that
there are wheels for. ``smoke.py PROFILE [EXPECTED_RELEASE_JSON [KNOWN_FAILURE…]]``.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from fnmatch import fnmatchcase
from pathlib import Path

EXPECTED = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
KNOWN = sys.argv[3:]

# All of it is the compiler's own, but for what stdint.h may include of the system's.
PROGRAM = """
#include <stddef.h>
#include <stdint.h>
struct pair { uint32_t first; double second; };
enum colour { RED = 3, GREEN };
static size_t add(const struct pair *a, ptrdiff_t b) { return a->first + b; }
"""


def parse(text, *arguments, name="program.c", **options):
    from clang.cindex import Index

    return Index.create().parse(name, args=list(arguments), unsaved_files=[(name, text)], **options)


def complaints(unit):
    return [str(diagnostic) for diagnostic in unit.diagnostics]


def find(unit, spelling):
    return next(cursor for cursor in unit.cursor.walk_preorder() if cursor.spelling == spelling)


def check_import():
    import clang.cindex  # noqa: F401


def check_release():
    from importlib.resources import files

    import clang._release  # noqa: F401

    found = json.loads(files("clang").joinpath("_release.json").read_text(encoding="utf-8"))
    wrong = {key: (found.get(key), value) for key, value in EXPECTED.items() if found.get(key) != value}
    assert not wrong, "clang/_release.json, found and expected: %r" % wrong


def check_own_library():
    """The library beside the bindings is loaded, though nothing says where it is."""
    import clang.cindex

    given = [name for name in os.environ if name.startswith("LIBCLANG_")]
    assert not given, given
    library = Path(clang.cindex.Config().get_filename())
    assert library.is_file(), library
    assert library.parent == Path(clang.cindex.__file__).parent / "lib", library
    clang.cindex.Index.create()


def check_version():
    version = EXPECTED.get("llvm_version", "").split("git")[0]
    said = complaints(parse("_Static_assert(0, __clang_version__);"))
    assert version in str(said), (version, said)


def check_parse():
    """Walk through a program that needs the compiler's own headers."""
    from clang.cindex import CursorKind

    unit = parse(PROGRAM)
    assert not complaints(unit), complaints(unit)
    function = find(unit, "add")
    assert function.kind == CursorKind.FUNCTION_DECL, function.kind
    assert [argument.spelling for argument in function.get_arguments()] == ["a", "b"]
    assert find(unit, "GREEN").enum_value == 4


def check_types():
    from clang.cindex import TypeKind

    unit = parse(PROGRAM, "--target=x86_64-linux-gnu", "-ffreestanding")
    assert not complaints(unit), complaints(unit)
    pair = find(unit, "pair").type
    assert (pair.get_size(), pair.get_align(), pair.get_offset("second")) == (16, 8, 64)
    function = find(unit, "add").type
    assert function.kind == TypeKind.FUNCTIONPROTO, function.kind
    assert function.get_result().get_canonical().spelling == "unsigned long", function.spelling
    assert [kind.spelling for kind in function.argument_types()] == ["const struct pair *", "ptrdiff_t"]


def check_own_headers():
    """Each is the wheel's, and none the machine's (Debian's library takes those that it lacks from /usr/include/clang);
    the current folder is of no account, and a user's choice wins."""
    import clang.cindex

    package = Path(clang.cindex.__file__).resolve().parent

    def included(text, *arguments):
        unit = parse(text, *arguments)
        names = [each.include.name for each in unit.get_includes()]
        own = [name for name in names if package in Path(name).resolve().parents]
        return complaints(unit), own, sorted(set(names).difference(own))

    for target, header in (("x86_64", "immintrin.h"), ("aarch64", "arm_neon.h"), ("riscv64", "stdatomic.h")):
        text = "#include <%s>\n%s" % (header, PROGRAM)
        said, own, foreign = included(text, "--target=%s-linux-gnu" % target, "-ffreestanding")
        assert not said, said
        assert own, "nothing was included"
        assert not foreign, foreign
    _, own, _ = included("#include <stddef.h>", "-resource-dir", str(package / "nowhere"), "-nostdlibinc")
    assert not own, own


def check_diagnostics():
    from clang.cindex import Diagnostic

    unit = parse("int f(void) {\n  return x;\n}")  # what it gives lives no longer than it
    (found,) = unit.diagnostics
    assert found.severity == Diagnostic.Error, found.severity
    assert (found.location.line, found.location.column) == (2, 10), found.location
    assert "undeclared identifier 'x'" in found.spelling, found.spelling


def check_cplusplus():
    from clang.cindex import CursorKind

    text = "template <class T> struct box { T value; };\nauto get(box<int> b) { return [b] { return b.value; }(); }"
    unit = parse(text, "-std=c++17", name="program.cpp")
    assert not complaints(unit), complaints(unit)
    assert find(unit, "box").kind == CursorKind.CLASS_TEMPLATE
    assert find(unit, "get").result_type.get_canonical().spelling == "int"


def check_completion():
    text = "struct s { int apple; };\nvoid f(struct s v) { v. }"
    unit = parse(text)
    completions = unit.codeComplete("program.c", 2, 24, [("program.c", text)])
    found = [str(result) for result in completions.results]
    assert any("apple" in result for result in found), found


def check_assembly():
    """Microsoft's blocks of assembly need the assembler of X86, on every machine."""
    unit = parse("void f(void) { __asm { mov eax, ebx } }", "--target=x86_64-linux-gnu", "-fasm-blocks")
    assert not complaints(unit), complaints(unit)


def check_compilation_database():
    """The target is taken from the name of a cross compiler; so libclang must know the target."""
    from clang.cindex import CompilationDatabase

    with tempfile.TemporaryDirectory() as folder:
        command = {"directory": folder, "file": "a.c", "arguments": ["aarch64-linux-gnu-gcc", "-c", "a.c"]}
        Path(folder, "compile_commands.json").write_text(json.dumps([command]), encoding="utf-8")
        database = CompilationDatabase.fromDirectory(folder)
        (found,) = database.getCompileCommands(str(Path(folder, "a.c")))
        arguments = list(found.arguments)
    assert "--target=aarch64-linux-gnu" in arguments, arguments


def check_saved_units():
    """A parsed program is written, and read again."""
    from clang.cindex import TranslationUnit

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "program.ast"))
        parse(PROGRAM).save(path)
        unit = TranslationUnit.from_ast_file(path)
        assert find(unit, "GREEN").enum_value == 4
        del unit  # closes the file, which Windows asks for


CHECKS = [
    check_import,
    check_release,
    check_own_library,
    check_version,
    check_parse,
    check_types,
    check_own_headers,
    check_diagnostics,
    check_cplusplus,
    check_completion,
    check_assembly,
    check_compilation_database,
    check_saved_units,
]


def main():
    failed = 0
    for check in CHECKS:
        start = time.time()
        message = ""
        try:
            check()
        except BaseException:  # also SystemExit: nothing may end this process early
            message = traceback.format_exc()
        name = check.__name__[len("check_") :]
        failed += bool(message) and not any(fnmatchcase(name, pattern) for pattern in KNOWN)
        result = {"name": name, "ok": not message, "message": message}
        print(json.dumps(dict(result, seconds=round(time.time() - start, 3))), flush=True)
    print(json.dumps({"name": "end", "ok": True, "message": "", "seconds": 0}), flush=True)
    return 1 if failed else 0


sys.exit(main())
