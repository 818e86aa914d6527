from clang.cindex import Index

unit = Index.create().parse("program.c", unsaved_files=[("program.c", "int answer(void); struct point { int x, y; };")])
for cursor in unit.cursor.get_children():
    print(cursor.kind.name, cursor.spelling)
