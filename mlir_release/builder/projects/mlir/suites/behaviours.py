"""Behaviours of MLIR that this project pins, each to the LLVM versions in which it holds or fails.

They come from a downstream's report that "bytecode made debug info vanish". They show what bytecode keeps, what drops
debug info, and the failure that started the report. Each case states a desirable property. Where the property is known
to fail, a pass is reported as unexpected, so that we notice when upstream fixes it.

The cases run against a wheel (:class:`WheelMlir`, its Python API) and an SDK (:class:`ToolsMlir`, its programs).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mlir_release.builder.projects.mlir import DRIVER
from mlir_release.builder.testing.known_failures import version_in
from mlir_release.builder.testing.port import TIMEOUT
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


class MlirError(Exception):
    """MLIR refused the input; the message is what it printed."""


class UnsupportedError(Exception):
    """This interface cannot do what a case asks for; the message says why."""


class Mlir(Protocol):
    """An MLIR that the cases run on, through either interface. All texts are MLIR assembly unless noted otherwise."""

    def round_trip(self, text: str) -> tuple[str, str]:
        """``(before, after)``: printed with locations, before and after being written and read as bytecode."""

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        """The module after a pass pipeline (``builtin.module(…)``)."""

    def to_llvm_ir(self, text: str) -> str:
        """LLVM IR. :raises MlirError: if the translation fails"""


def _run(command: Sequence[str | Path], text: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """``(exit code, standard output)``. :raises MlirError: on any exit code but 0 and 3"""
    done = capture(command, text=text, environment=environment, timeout=TIMEOUT)
    if done.returncode not in (0, 3):
        raise MlirError(f"{done.ending}\n{done.stderr.strip()}")
    return done.returncode, done.stdout


@dataclass(frozen=True, kw_only=True)
class ToolsMlir:
    """``mlir-opt`` and ``mlir-translate`` in the folder ``tools``. Methods as of :class:`Mlir`."""

    tools: Path

    def round_trip(self, text: str) -> tuple[str, str]:
        """``(before, after)``."""
        opt = self.tools / "mlir-opt"
        with scratch_folder("reach") as folder:
            bytecode = folder / "module.mlirbc"
            _, before = _run([opt, "--mlir-print-debuginfo", "-"], text)
            _run([opt, "--emit-bytecode", "-o", bytecode, "-"], text)
            _, after = _run([opt, "--mlir-print-debuginfo", bytecode], "")
        return before, after

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        """The module after the pipeline."""
        flags = ["--mlir-print-debuginfo"] if print_locations else []
        return _run([self.tools / "mlir-opt", f"--pass-pipeline={pipeline}", *flags, "-"], text)[1]

    def to_llvm_ir(self, text: str) -> str:
        """LLVM IR."""
        return _run([self.tools / "mlir-translate", "--mlir-to-llvmir", "-"], text)[1]


@dataclass(frozen=True, kw_only=True)
class WheelMlir:
    """The ``mlir`` that ``python`` imports; bindings that can't translate to LLVM IR get help from ``tools``.

    Methods as of :class:`Mlir`.

    :param tools: None if the SDK's tools are not here
    """

    python: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tools: Path | None

    def _drive(self, text: str, *arguments: str) -> tuple[int, str]:
        return _run([self.python, DRIVER, *arguments], text, self.environment)

    def round_trip(self, text: str) -> tuple[str, str]:
        """``(before, after)``, which the driver prints with a line of dashes between them."""
        before, after = re.split(r"^-{60}\n", self._drive(text, "round-trip")[1], maxsplit=1, flags=re.MULTILINE)
        return before, after

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        """The module after the pipeline."""
        return self._drive(text, "run", pipeline, "yes" if print_locations else "no")[1]

    def to_llvm_ir(self, text: str) -> str:
        """LLVM IR."""
        code, ir = self._drive(text, "translate")
        if code != 3:
            return ir
        if self.tools is None:
            raise UnsupportedError("these bindings cannot translate to LLVM IR, and the SDK's tools part is not here")
        return ToolsMlir(tools=self.tools).to_llvm_ir(text)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A property, and the versions in which it is known to hold and to fail; between them it is not judged.

    :param check: returns an empty string if the property holds, else what was seen instead; an :class:`MlirError`
        was seen, too
    """

    name: str
    check: Callable[[Mlir], str]
    holds: str = ""
    fails: str = ""
    reason: str = ""
    symptom: str = ""  #: part of what is seen where it is known to fail; anything else is a failure of another kind
    link: str = ""  #: where upstream knows of it

    def expected(self, llvm_version: str) -> bool | None:
        """Whether the property holds in this version; ``None`` where it is not known."""
        if self.holds and version_in(llvm_version, self.holds):
            return True
        if self.fails and version_in(llvm_version, self.fails):
            return False
        return None


_LOCATIONS = {
    "file-line-column": '"a.py":1:2',
    "unknown": "unknown",
    "name": '"n"(unknown)',
    "name-of-a-place": '"n"("a.py":1:2)',
    "fused": 'fused["a.py":1:2, "b.py":3:4]',
    "fused-with-metadata": 'fused<"metadata">["a.py":1:2, "b.py":3:4]',
    "callsite": 'callsite("callee.py":1:2 at "caller.py":3:4)',
    "nested": 'fused[callsite("n"(unknown) at "caller.py":3:4), "m"("b.py":5:6)]',
}

#: Locations on an operation, a function and a block argument. A region's end needs one too, or the parser makes one up.
_LOCATED_MODULE = """
module {{
  func.func @f(%a: i32 loc({location})) -> i32 {{
    %0 = arith.addi %a, %a : i32 loc({location})
    return %0 : i32 loc({location})
  }} loc({location})
}} loc({location})
"""

#: A node of LLVM IR's debug info, one of its fields, and an instruction or function with the node that places it.
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): [!"]?([^",]*)')
_INSTRUCTION = re.compile(r"^(?:(?=define)|  (?:%\S+ = )?)(\w+)\b(?:.*!dbg !(\d+))?", re.MULTILINE)

_NO_SUBPROGRAM = """
module {
  llvm.func @f(%a: i32) -> i32 {
    %0 = llvm.add %a, %a : i32 loc("a.py":2:3)
    %1 = llvm.mul %0, %a : i32 loc("n"(unknown))
    llvm.return %1 : i32 loc("a.py":4:5)
  } loc("a.py":1:1)
}
"""

_ADD_SCOPES = "builtin.module(ensure-debug-info-scope-on-llvm-func)"

_TWO_SUBPROGRAMS = """
#file = #llvm.di_file<"a.py" in "/src">
#unit = #llvm.di_compile_unit<id = distinct[0]<>, sourceLanguage = DW_LANG_C, file = #file, producer = "MLIR",
                              isOptimized = true, emissionKind = LineTablesOnly>
#type = #llvm.di_subroutine_type<callingConvention = DW_CC_normal>
#callee = #llvm.di_subprogram<id = distinct[1]<>, compileUnit = #unit, scope = #file, name = "callee", file = #file,
                              line = 1, scopeLine = 1, subprogramFlags = Definition, type = #type>
#caller = #llvm.di_subprogram<id = distinct[2]<>, compileUnit = #unit, scope = #file, name = "caller", file = #file,
                              line = 3, scopeLine = 3, subprogramFlags = Definition, type = #type>
module {
  llvm.func @callee() {
    llvm.return loc("a.py":1:2)
  } loc(fused<#callee>["a.py":1:1])
  llvm.func @caller() {
    llvm.call @callee() : () -> () loc(CALL_LOCATION)
    llvm.return loc("a.py":4:2)
  } loc(fused<#caller>["a.py":3:1])
}
"""

#: What LLVM IR says of the call there, by its location, as :func:`said_places` spells it.
_PLACES_OF_CALLS = {
    "file-line-column": ('"a.py":4:1', "a.py:4:1 in caller"),
    "name-of-a-place": ('"n"("a.py":4:1)', "a.py:4:1 in caller"),
    "fused": ('fused["a.py":4:1]', "a.py:4:1 in caller"),
    "fused-with-unknown": ('fused[unknown, "a.py":4:1]', "a.py:4:1 in caller"),
    "fused-of-two-files": ('fused["x.py":7:8, "a.py":4:1]', "a.py:0:0 in caller"),
    "callsite-of-an-inlined-function": (
        'callsite(fused<#callee>["a.py":1:9] at "a.py":4:5)', "a.py:1:9 in callee, at a.py:4:5 in caller"
    ),
    "callsite-without-a-function": ('callsite("a.py":1:9 at "a.py":4:5)', "a.py:4:5 in caller"),
    "callsite-of-unknown": ('callsite(unknown at "a.py":4:5)', "a.py:4:5 in caller"),
}  # fmt: skip

#: What refuses a call without a place: for each the reason, what is seen of it, and where upstream knows of it.
_VERIFIER = {
    "reason": "LLVM's verifier wants a !dbg location on an inlinable call between two functions with debug info, and a "
    "location that is a bare name has none",
    "symptom": "must have a !dbg location",
    "link": "https://github.com/llvm/llvm-project/issues/60222",
}
_DIALECT = {
    "reason": "the LLVM dialect refuses an inlinable call without a location where both functions have debug info",
    "symptom": "must have a debug location",
    "link": _VERIFIER["link"],
}

#: Locations at which the call has no place, and what refuses it.
_CALLS_WITHOUT_A_PLACE = {
    "unlocated": ('"n"(unknown)', _VERIFIER),
    "callsite-at-unknown": ('callsite("a.py":1:9 at unknown)', _VERIFIER),
    "unknown": ("unknown", _DIALECT),
    "fused-unknown": ("fused[unknown]", _DIALECT),
}


#: Modules that are too long for a line, by the names of their files.
_NAMES_AROUND_PLACES, _NAMES_ONLY, _NAMED_MODULE, _NUL_IN_NAMES = (
    (DRIVER.parent / "behaviours" / f"{name}.mlir").read_text(encoding="utf-8")
    for name in ("names-around-places", "names-only", "named-module", "nul-in-names")
)


def _survives_bytecode(text: str, *words: str) -> Callable[[Mlir], str]:
    """Whether a module is the same after bytecode, and has ``words`` in it."""

    def check(mlir: Mlir) -> str:
        before, after = mlir.round_trip(text)
        if before == after and all(word in before for word in words):
            return ""
        return f"before:\n{before}\nafter:\n{after}"

    return check


def _with_debug_info(mlir: Mlir, text: str) -> str:
    """LLVM IR of what bytecode makes of a module, once its functions have scopes. :raises MlirError:"""
    _, after = mlir.round_trip(text)
    return mlir.to_llvm_ir(mlir.run(after, _ADD_SCOPES, print_locations=True))


def said_places(ir: str) -> list[str]:
    """The instructions of LLVM IR with what it says of where each comes from: ``ret a.py:4:5 in f``.

    A function is ``define a.py:1 f``. Inlined code adds where to: ``call a.py:1:9 in callee, at a.py:4:5 in caller``.
    """
    nodes = {number: (kind, dict(_FIELD.findall(fields))) for number, kind, fields in _NODE.findall(ir)}

    def scope(number: str, file: str = "") -> tuple[str, str, str]:
        kind, about = nodes[number]
        file = file or nodes[about["file"]][1]["filename"]  # a block within the function may be of another file
        return (file, about["line"], about["name"]) if kind == "Subprogram" else scope(about["scope"], file)

    def place(number: str) -> str:
        kind, about = nodes[number]
        file, line, name = scope(about["scope"] if kind == "Location" else number)
        if kind != "Location":
            return f"{file}:{line} {name}"
        inlined = f", at {place(about['inlinedAt'])}" if "inlinedAt" in about else ""
        return f"{file}:{about['line']}:{about.get('column', 0)} in {name}{inlined}"

    return [f"{word} {place(number)}" if number else word for word, number in _INSTRUCTION.findall(ir)]


def _says(produce: Callable[[Mlir], str], *places: str) -> Callable[[Mlir], str]:
    """Whether the LLVM IR that is made says these places, and no others."""

    def check(mlir: Mlir) -> str:
        ir = produce(mlir)
        return "" if said_places(ir) == list(places) else f"expected: {places}\n{ir}"

    return check


def _translates(produce: Callable[[Mlir], str]) -> Callable[[Mlir], str]:
    """Whether there is LLVM IR, whatever it says."""
    return lambda mlir: "" if produce(mlir) else "nothing was printed"


def _call_says(location: str, place: str) -> Callable[[Mlir], str]:
    """Whether a call's place reaches LLVM IR, from text and by bytecode."""
    around = ("define a.py:1 callee", "ret a.py:1:2 in callee", "define a.py:3 caller")
    places = (*around, f"call {place}", "ret a.py:4:2 in caller")
    direct, by_bytecode = (_says(partial(_call_at, location, bytecode=both), *places) for both in (False, True))
    return lambda mlir: direct(mlir) or by_bytecode(mlir)


def _call_at(location: str, mlir: Mlir, *, bytecode: bool = False) -> str:
    """LLVM IR of a call with a location. :raises MlirError:"""
    text = _TWO_SUBPROGRAMS.replace("CALL_LOCATION", location)
    return mlir.to_llvm_ir(mlir.round_trip(text)[1] if bytecode else text)


def _text_without_locations_hides_the_failure(mlir: Mlir) -> str:
    """A text pipeline that forgets ``--mlir-print-debuginfo`` works: what reads the text makes places of its lines."""
    text = mlir.run(_NAMES_ONLY, "builtin.module()", print_locations=False)
    ir = mlir.to_llvm_ir(mlir.run(text, _ADD_SCOPES, print_locations=True))
    located = any(re.fullmatch(r"call [^:]+:\d+:\d+ in main", said) for said in said_places(ir))
    return "" if located and "loc(" not in text else f"{text}\n{ir}"


def _printing_without_locations_drops_all(mlir: Mlir) -> str:
    """Not a bug of bytecode's, but looks like it: a text pipeline that forgets ``--mlir-print-debuginfo``."""
    text = mlir.run(_NO_SUBPROGRAM, _ADD_SCOPES, print_locations=False)
    ir = mlir.to_llvm_ir(text)
    return f"{text}\n{ir}" if "loc(" in text or "!dbg" in ir else ""


def _compile_unit_stays_one(mlir: Mlir) -> str:
    _, after = mlir.round_trip(_TWO_SUBPROGRAMS.replace("CALL_LOCATION", '"a.py":4:1'))
    return "" if len(re.findall(r"#llvm\.di_compile_unit<", after)) == 1 else after


CASES: tuple[Case, ...] = (
    *(
        Case(
            name=f"location-survives-bytecode/{name}",
            check=_survives_bytecode(
                _LOCATED_MODULE.format(location=location), *(re.findall(r'"[^"]+"', location) or ["unknown"])
            ),
            holds=">=19",
        )
        for name, location in _LOCATIONS.items()
    ),
    Case(
        name="names/only-names-survive-bytecode",
        check=_survives_bytecode(_NAMES_ONLY, *re.findall(r'"[a-z]+"', _NAMES_ONLY)),
        holds=">=19",
    ),
    Case(
        name="names/named-module-survives-bytecode",
        check=_survives_bytecode(_NAMED_MODULE, "module @posenet ", 'data_layout = "e"', 'loc("posenet")'),
        holds=">=19",
    ),
    Case(
        name="names/nul-survives-bytecode",
        check=_survives_bytecode(_NUL_IN_NAMES, *re.findall(r'"[^"]+"', _NUL_IN_NAMES)),
        holds=">=19",
    ),
    Case(
        name="names/nul-reaches-llvm-ir",
        check=_says(
            lambda mlir: _with_debug_info(mlir, _NUL_IN_NAMES),
            r"define a\00b.py:1 main\00entry",
            r"ret a\00b.py:2:3 in main\00entry",
        ),
        holds=">=19",
    ),
    Case(
        name="debug-info/none-without-subprogram",
        check=_says(lambda mlir: mlir.to_llvm_ir(_NO_SUBPROGRAM), "define", "add", "mul", "ret"),
        holds=">=19",
    ),
    Case(
        name="debug-info/all-with-subprogram",  # but the operation whose own location is unknown
        check=_says(
            lambda mlir: _with_debug_info(mlir, _NO_SUBPROGRAM),
            *("define a.py:1 f", "add a.py:2:3 in f", "mul", "ret a.py:4:5 in f"),
        ),
        holds=">=19",
    ),
    Case(name="debug-info/none-if-printed-without", check=_printing_without_locations_drops_all, holds=">=19"),
    Case(
        name="debug-info/one-compile-unit-stays-one",
        check=_compile_unit_stays_one,
        holds=">=22",
        fails="<20",
        reason="bytecode makes a copy of a distinct attribute for each use (right since some version after 19)",
    ),
    Case(
        name="debug-info/names-around-places-give-lines",
        check=_says(
            lambda mlir: _with_debug_info(mlir, _NAMES_AROUND_PLACES),
            *("define a.py:1 f", "add a.py:2:3 in f", "ret b.py:4:5 in f"),
        ),
        holds=">=22",
        fails="<20",
        reason="the pass that makes scopes forgets a place's own file (right since some version after 19)",
        symptom="!DILocation(line: 4, column: 5",
    ),
    Case(
        name="debug-info/names-alone-give-none",
        check=_says(lambda mlir: mlir.to_llvm_ir(_NAMES_ONLY), "define", "ret", "define", "add", "call", "ret"),
        holds=">=19",
    ),
    Case(
        name="debug-info/names-alone-translate-with-subprograms",
        check=_translates(lambda mlir: _with_debug_info(mlir, _NAMES_ONLY)),
        fails=">=19",
        **_VERIFIER,
    ),
    Case(name="debug-info/text-without-hides-that", check=_text_without_locations_hides_the_failure, holds=">=19"),
    *(
        Case(name=f"debug-info/call/{name}", check=_call_says(location, place), holds=">=19")
        for name, (location, place) in _PLACES_OF_CALLS.items()
    ),
    *(
        Case(name=f"debug-info/call/{name}", check=_translates(partial(_call_at, location)), fails=">=19", **known)
        for name, (location, known) in _CALLS_WITHOUT_A_PLACE.items()
    ),
    Case(
        name="debug-info/call/another-file",
        check=_call_says('"x.py":7:8', "x.py:7:8 in caller"),
        fails=">=19",
        reason="a place is given the file of the function's scope, not its own: only a pass that makes scopes keeps it",
        symptom="!DILocation(line: 7, column: 8",
    ),
)


def run_cases(mlir: Mlir, llvm_version: str, cases: Iterable[Case] = CASES) -> tuple[TestResult, ...]:
    """Run the cases, each to a result named ``regressions/<case>``."""
    return tuple(_run_case(case, mlir, llvm_version) for case in cases)


def _run_case(case: Case, mlir: Mlir, llvm_version: str) -> TestResult:
    name, start, link = f"regressions/{case.name}", time.monotonic(), ""
    try:
        seen = case.check(mlir)
    except UnsupportedError as error:
        return TestResult(name=name, outcome=TestOutcome.UNSUPPORTED, message=str(error))
    except MlirError as error:
        seen = str(error) or "MLIR failed without a message"
    match case.expected(llvm_version), not seen:
        case True, True:
            outcome, message = TestOutcome.PASS, ""
        case False, False if case.symptom in seen:
            outcome, message, link = TestOutcome.EXPECTED_FAIL, case.reason, case.link
        case True | False, False:
            outcome, message = TestOutcome.FAIL, seen
        case False, True:
            outcome = TestOutcome.UNEXPECTED_PASS
            message = f"fixed upstream? Record it in the case. It was: {case.reason}"
        case _, holds:
            outcome = TestOutcome.UNSUPPORTED
            state = "holds" if holds else f"does not hold: {seen}"
            message = f"not recorded for this LLVM version; it {state}"
    return TestResult(name=name, outcome=outcome, seconds=time.monotonic() - start, message=message, link=link)
