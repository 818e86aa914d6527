"""The options of a recorded command of ``clang -cc1``: which count when its bitcode is compiled again, and are safe.

A corpus may come from others. So only options on the lists here are taken. They choose how code is generated; none of
them loads a plugin, names a file to write, or reads more options from a file. Pure.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Options that name a profile to use: the only files that a command reads beside the module.
PROFILE = re.compile(r"-fprofile-(?:instrument-use-path|sample-use)=")

#: Options that choose the output and its place; those with a value are in the second set.
_OUTPUT = re.compile(r"-emit-(?:obj|llvm-bc)|-fembed-bitcode(?:=.*)?|-ftime-trace(?:=.*)?|-sys-header-deps|-MP|-MG")
_OUTPUT_VALUED = frozenset(
    {"-o", "-x", "-MT", "-MQ", "-dependency-file", "-dumpdir", "-split-dwarf-file", "-split-dwarf-output"}
)

#: Options of the front end alone, which name folders of the machine; those with a value are in the second set.
_SOURCE = re.compile(
    r"-std=.*|-pedantic.*|-W.*|-w|-[DUI].+|-f(?:color-|no-)?diagnostics.*|-f(?:debug|coverage)-compilation-dir=.*"
    r"|-f(?:debug|coverage|macro)-prefix-map=.*|-f(?:template-backtrace-limit|message-length)=.*"
    r"|-fsanitize-(?:system-)?ignorelist=.*"
)
_SOURCE_VALUED = frozenset(
    {
        "-main-file-name", "-resource-dir", "-D", "-U", "-I", "-isystem", "-isysroot", "-iquote", "-idirafter",
        "-include", "-include-pch", "-internal-isystem", "-internal-externc-isystem", "-ferror-limit",
    }
)  # fmt: skip


#: A value that is no path.
_WORD = r"[A-Za-z0-9_.,+-]+"

#: llc's options. Source: :func:`llc_flags`; a person may add those of the target.
_LLC = re.compile(
    rf"-O[0-3]|-(?:relocation|code)-model=[a-z-]+|-(?:function|data)-sections|-m(?:triple|cpu|attr)={_WORD}"
)

#: llc's options for code generation, as clang -cc1 has them.
_GENERATING = {
    re.compile("-O[0-3]"): "{0}",
    re.compile("-relocation-model=(.+)"): "-mrelocation-model {1}",
    re.compile("-code-model=(.+)"): "-mcmodel={1}",
    re.compile("-(function|data)-sections"): "-f{1}-sections",
}

#: Options of ``clang -cc1`` without a value: switches of code generation and optimization.
_SWITCH = re.compile(
    r"-cc1|-O[0-3gsz]|-f(?!ixit|plugin|pass-plugin)[a-z][a-z0-9-]*|-m(?!llvm|ain|odule|t-|link)[a-z][a-z0-9-]*|-disable-(?:free|llvm-verifier|llvm-passes|O0-optnone)"
    r"|-clear-ast-before-backend|-discard-value-names|-no-round-trip-args|-pic-is-pie|-vectorize-(?:loops|slp)"
    r"|-relaxed-aliasing|-pthread|-enable-tlsdesc|-Qn|-g[a-z-]+|-dwarf-explicit-import|-split-dwarf-inlining|-no[a-z]+"
)

#: Those with a value after ``=``, which is a word.
_EQUALS = re.compile(
    r"-(?:debug-info-kind|dwarf-version|debugger-tuning|complex-range|-compress-debug-sections|gpubnames|target-sdk-version"
    r"|m(?:abi|branch-protection|cmodel|frame-pointer|function-return|harden-sls|large-data-threshold"
    r"|prefer-vector-width|recip|sign-return-address(?:-key)?|stack-alignment|stack-probe-size|tls-size|vscale-(?:min|max))"
    r"|f(?:basic-block-sections|cf-protection|default-calling-conv|denormal-fp-math(?:-f32)?|fp-(?:contract|exception-behavior)"
    r"|fp-eval-method|max-type-align|objc-runtime|gnuc-version|lto|ms-compatibility-version|patchable-function-entry|profile-instrument"
    r"|sanitize(?:-recover|-merge|-trap|-coverage-type)?|tls-model|trivial-auto-var-init|unwind-tables|veclib"
    r"|(?:type-)?visibility|zero-call-used-regs))"
    rf"={_WORD}"
)

#: Those whose value is the next word; no value begins as an option does, but for a feature to turn off.
_VALUED = frozenset(
    {
        "-triple", "-target-cpu", "-tune-cpu", "-target-abi", "-mrelocation-model", "-pic-level",
        "-stack-protector", "-stack-protector-buffer-size", "-mthread-model", "-mfloat-abi", "-mfpmath", "-mregparm",
    }
)  # fmt: skip

_VALUE, _FEATURE = re.compile(r"[A-Za-z0-9_.,+][A-Za-z0-9_.,+-]*"), re.compile(r"[+-][A-Za-z0-9_.-]+")

#: Those that look like a switch, and take the next word as well. With one of them, clang would read the words that
#: follow otherwise than this module does: ``-mtp -target-feature -load X`` loads a plugin.
#: Source: CC1Option with Separate in clang/include/clang/Options/Options.td.
_SWALLOWING = frozenset(
    {
        "-fbracket-depth", "-fconstant-string-class", "-fcuda-include-gpubinary", "-fdebug-compilation-dir",
        "-fdiagnostics-format", "-fdiagnostics-show-category", "-ferror-limit", "-fexperimental-openacc-macro-override",
        "-fmodule-feature", "-fmodule-implementation-of", "-fmodules-user-build-path", "-fopenmp-host-ir-file-path",
        "-ftabstop", "-ftrapv-handler", "-function-alignment", "-mdebug-pass", "-meabi", "-mlimit-float-precision",
        "-mmlir", "-msmall-data-limit", "-mtp",
    }
)  # fmt: skip

#: LLVM's own options, after ``-mllvm``: switches, and numbers. A word could be a path. Those that name a file are left
#: out: without a value, they take the next option as its name.
_MLLVM = re.compile(
    r"-(?!load)(?!.*\b(?:base|dir|directory|exec|file|filename|output|path|plugin|prefix|summary)\b)"
    r"[a-z][a-z0-9-]*(?:=(?:-?\d+|true|false))?"
)


def refused_by_llc(flags: Sequence[str]) -> str | None:
    """The first option that llc is not given for a module; None if it gets all."""
    return next((flag for flag in flags if not _LLC.fullmatch(flag)), None)


def refused_by_clang(flags: Sequence[str]) -> str | None:
    """The first option that ``clang -cc1`` is not given for a module, with its value; None if it gets all.

    :param flags: exactly the words that clang is to get
    """
    words = iter(flags)
    valued = {**dict.fromkeys(_VALUED, _VALUE), "-mllvm": _MLLVM, "-target-feature": _FEATURE}
    for word in words:
        if (form := valued.get(word)) is not None:
            if not form.fullmatch(value := next(words, "")):
                return f"{word} {value}"
        elif word in _SWALLOWING or not (_SWITCH.fullmatch(word) or _EQUALS.fullmatch(word) or PROFILE.match(word)):
            return word
    return None


def with_profiles(command: Sequence[str], directory: Path) -> list[str]:
    """A command recorded in a folder, with the full paths of its profiles: it is used elsewhere later."""
    return [
        f"{match[0]}{directory / word[match.end() :]}" if (match := PROFILE.match(word)) else word for word in command
    ]


def clang_flags(command: Sequence[str]) -> tuple[str, ...]:
    """The options of a command that count for bitcode: without output, sources and folders, but for profiles.

    :param command: ``-cc1`` and its options, as recorded; inputs and outputs may be missing
    """
    kept, words = [], iter(command)
    for word in words:
        if word in _OUTPUT_VALUED or word in _SOURCE_VALUED:
            next(words, None)
        elif not (_OUTPUT.fullmatch(word) or _SOURCE.fullmatch(word)):
            kept.append(word)
    return tuple(kept)


def llc_flags(command: Sequence[str]) -> tuple[str, ...]:
    """llc's options for the part of a command that counts for code generation, and that the module does not hold."""
    found = []
    for word, value in zip(command, [*command[1:], ""], strict=True):
        if re.fullmatch("-O[0-3]", word):
            found.append(word)
        elif word in ("-Os", "-Oz"):
            found.append("-O2")
        elif word == "-mrelocation-model":
            found.append(f"-relocation-model={value}")
        elif word.startswith("-mcmodel="):
            found.append(f"-code-model={word.partition('=')[2]}")
        elif word in ("-ffunction-sections", "-fdata-sections"):
            found.append(f"-{word[2:]}")
    return tuple(found)


def generating(flags: Sequence[str]) -> list[str]:
    """Options of ``clang -cc1`` that generate code from optimized bitcode as llc does.

    :param flags: a module's, for llc (:func:`llc_flags`)
    """
    found = ["-cc1", "-emit-obj", "-disable-llvm-passes"]
    for flag in flags:
        matches = ((pattern.fullmatch(flag), option) for pattern, option in _GENERATING.items())
        found += [word for match, option in matches if match for word in option.format(flag, *match.groups()).split()]
    return found


def optimizing(flags: Sequence[str]) -> list[str]:
    """Options of opt that optimize the front end's bitcode by clang's pipeline, with the same options of LLVM's.

    :param flags: a module's, for clang (:func:`clang_flags`)
    """
    *_, level = ["O0", *(flag[1:] for flag in flags if re.fullmatch("-O[0-3gsz]", flag))]
    ours = [value for word, value in pairwise(flags) if word == "-mllvm"]
    return [f"-passes=default<{level.replace('g', '1')}>", *ours]
