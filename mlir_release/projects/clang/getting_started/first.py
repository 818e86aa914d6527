from clang.cindex import CursorKind, Index

PROGRAM = """
#include <stddef.h>
struct point { float x, y; };
size_t count(const struct point *all, size_t room);
"""

unit = Index.create().parse("points.h", args=["-x", "c"], unsaved_files=[("points.h", PROGRAM)])
for diagnostic in unit.diagnostics:
    print(diagnostic)
for cursor in unit.cursor.get_children():
    if cursor.location.file.name == "points.h":
        print(cursor.kind.name, cursor.spelling)
    if cursor.kind == CursorKind.FUNCTION_DECL:
        print(cursor.result_type.spelling, [argument.type.spelling for argument in cursor.get_arguments()])
