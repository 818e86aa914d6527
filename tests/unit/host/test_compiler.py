from __future__ import annotations

import pytest

from mlir_release.errors import MachineError
from mlir_release.host import compiler
from mlir_release.host.compiler import changed, find_compiler


def test_a_compiler_that_cxx_names_and_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(MachineError, match="no C\\+\\+ compiler") as raised:
        find_compiler()
    assert raised.value.where == "CXX=no-such-compiler"


def test_what_visual_studio_sets() -> None:
    printed = "Path=C:\\VC\\bin;C:\\Windows\nINCLUDE=C:\\VC\\include\nUSERNAME=me\n=C:=C:\\\nmalformed\n"
    assert changed(printed, {"PATH": "C:\\Windows", "USERNAME": "me"}) == {
        "PATH": "C:\\VC\\bin;C:\\Windows",
        "INCLUDE": "C:\\VC\\include",
    }


def test_no_visual_studio(tmp_path: object) -> None:
    assert compiler._visual_studio({"ProgramFiles(x86)": str(tmp_path)}) == {}
