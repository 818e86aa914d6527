#!/usr/bin/env python3
"""Print where a file of before the seven rooms is now: ``python tools/moves.py mlir_release/release/tend.py``.

Findings and notes cite the old paths until 1.0.0, when this goes. Without a path, all moves are printed.
"""

from __future__ import annotations

import sys

#: Folder -> the modules that moved into it, by their old paths without ``mlir_release/`` and ``.py``. A folder of data
#: ends in ``/``. Folders without Python keep their place beside the modules that read them.
MOVES = {
    "ground": "console errors foreign forge/hosting integrate/search integrate/strategy model/job_names plugins tables",
    "ground/documents": "model/decode model/digests model/times model/trailers",
    "ground/storage": "host/archives host/cache host/disk host/download host/files host/shipped host/tempdirs",
    "ground/programs": "host/guard host/needs host/process host/races host/surroundings host/trial",
    "ground/python": "host/locked host/pythons host/resolver host/uv_settings host/venv model/cpython model/platforms"
    " model/requirements",
    "ground/git": "git/carriers git/locks git/reach git/remotes git/repository git/reverts git/shared"
    " git/signing git/trees git/worktrees",
    "ground/llvm": "model/llvm_facts model/llvm_version model/pin model/projects model/recipes pinning/recogniser"
    " pinning/remote pinning/upstream",
    "builder/model": "model/names model/orders model/rebuilt model/regalloc_model model/sdk_wheel_info model/suites"
    " model/test_report model/wheel_info",
    "builder/tools": "host/build_tools host/compiler host/containers host/ninja",
    "builder/sdk": "sdk/build sdk/build_environment sdk/components sdk/elf sdk/importer sdk/info sdk/packing sdk/parts"
    " sdk/port sdk/prefix sdk/programs sdk/progress sdk/provision sdk/regalloc_model",
    "builder/sdk/sources": "sdk/debian sdk/releases sdk/source sdk/upstream",
    "builder/testing": "testing/known_failures testing/lit testing/port testing/report testing/run",
    "builder/wheels": "wheels/archive wheels/backends wheels/binaries wheels/build wheels/cibuildwheel wheels/compare"
    " wheels/cross wheels/inspect wheels/jobserver wheels/platform_tags wheels/port wheels/request"
    " wheels/source wheels/stage",
    "builder/projects": "projects/api",
    "builder/projects/clang": "projects/clang/closure projects/clang/for_sdk projects/clang/for_testing"
    " projects/clang/for_wheels",
    "builder/projects/mlir": "projects/mlir/cmake_exports projects/mlir/cmake_packages projects/mlir/components"
    " projects/mlir/for_sdk projects/mlir/for_testing projects/mlir/for_wheels projects/mlir/llvm_config"
    " projects/mlir/python_groups projects/mlir/sdk_members projects/mlir/sdk_programs projects/mlir/sdk_wheels",
    "builder/projects/mlir/suites": "projects/mlir/behaviours projects/mlir/builds projects/mlir/lit_site"
    " projects/mlir/measuring projects/mlir/type_checks",
    "builder/commands": "cli/each cli/sdk cli/wheels cli/wheels_test",
    "release/model": "model/canaries model/filters model/manifest model/matrix"
    " model/matrix_jobs model/measures model/pin_commit model/release_index model/release_settings model/release_tags"
    " model/targets model/wheel_target model/yanks",
    "release/forge": "forge/base forge/checkout forge/codeowners forge/files forge/observations forge/open"
    " forge/refusals forge/services",
    "release/forge/github": "forge/github/client forge/github/forge forge/github/issues"
    " forge/github/pins forge/github/refs forge/github/refusals forge/github/releases"
    " forge/github/runs forge/github/settings",
    "release/forge/local": "forge/local/forge forge/local/releases forge/local/repository forge/local/store",
    "release/pinning": "pinning/green pinning/installable pinning/pin_of pinning/pinned pinning/reachable"
    " pinning/state",
    "release/provenance": "provenance/bundle provenance/pointer provenance/policy provenance/sign"
    " provenance/trust provenance/verify",
    "release/transaction": "release/assets release/attest release/decisions release/draft release/ledger"
    " release/publish release/release_assets release/request release/start release/steps release/sweep release/tend"
    " release/upload",
    "release/judging": "release/check release/scorecard release/signed release/status release/status_facts",
    "release/latest": "release/catalogue release/channels release/latest release/latest_branch release/reverts",
    "release/instructions": "release/dependencies release/install_check release/install_snippets release/lockfiles"
    " release/notes",
    "release/pypi": "pypi/project pypi/publish",
    "release/index": "index/documents index/drawing index/generate index/observe index/pages index/simple index/site"
    " index/status_page",
    "release/probe": "index/probe",
    "release/rehearsal": "rehearsal/report rehearsal/run rehearsal/world",
    "release/commands": "cli/attest cli/find cli/forge cli/index cli/matrix cli/pin cli/publish cli/pypi"
    " cli/rehearsal cli/release cli/snapshot cli/tag",
    "use": "release/find release/install release/install_files release/install_target release/mirror release/rebuild",
    "use/bisect": "bisect/environments bisect/line bisect/result bisect/run model/bisect_record",
    "use/commands": "cli/bisect cli/install cli/mirror cli/verify",
    "operate": "release/issues",
    "operate/doctor": "doctor/actions doctor/checks doctor/files doctor/index doctor/integrate"
    " doctor/releases doctor/results doctor/settings",
    "operate/commands": "cli/doctor",
    "integrate": "integrate/config integrate/credentials integrate/loop integrate/open integrate/project"
    " integrate/report integrate/state integrate/status integrate/tables integrate/upstream",
    "integrate/pins": "integrate/dependency integrate/generated integrate/init"
    " integrate/pins integrate/refresh integrate/releases integrate/submodules",
    "integrate/walk": "integrate/bisect integrate/diamond integrate/doubt integrate/observe integrate/risk"
    " integrate/roll integrate/rounds integrate/smoke integrate/steps integrate/tidy integrate/together integrate/walk",
    "integrate/patches": "integrate/export integrate/ledger integrate/patches",
    "integrate/fix": "integrate/broken integrate/fix",
    "integrate/deliver": "integrate/branch integrate/deliver integrate/land integrate/page",
    "integrate/commands": "cli/integrate/options cli/integrate/patches cli/integrate/rounds cli/integrate/walk",
    "extras/mlgo/corpora": "extras/mlgo/cc1 extras/mlgo/corpus extras/mlgo/response_files extras/mlgo/thinlto",
    "extras/mlgo/training": "extras/mlgo/development extras/mlgo/in_tensorflow extras/mlgo/ml_compiler_opt"
    " extras/mlgo/saved_model extras/mlgo/trace extras/mlgo/train",
}

#: What has another name now, is in another module, or went whole: packages, folders of data, and the command
#: ``integrate``.
RENAMED = {
    "wheels/pack.py": "builder/wheels/source.py",
    "cli/integrate/__init__.py": "integrate/commands/integrate.py",
    "cli/diff.py": "release/commands/find.py",
    "doctor/rules.py": "operate/doctor/settings.py",
    "integrate/roll_issue.py": "integrate/walk/roll.py",
    "forge/github/checks.py": "release/forge/github/runs.py",
    "forge/github/pulls.py": "release/forge/github/issues.py",
    "forge/github/tags.py": "release/forge/github/refs.py",
    "forge/local/runs.py": "release/forge/local/services.py",
    "cli/canaries.py": "release/commands/release.py",
    "cli/status.py": "release/commands/release.py",
    "git/foreign.py": "release/forge/local/repository.py",
    "doctor/lint.py": "operate/doctor/actions.py",
    "integrate/align.py": "integrate/pins/dependency.py",
    "integrate/derived.py": "integrate/pins/pins.py",
    "host/notify.py": "integrate/deliver/deliver.py",
    "cli/integrate/bisect.py": "integrate/commands/integrate.py",
    "cli/integrate/fix.py": "integrate/commands/integrate.py",
    "cli/integrate/init.py": "integrate/commands/integrate.py",
    "index/archive.py": "release/index/observe.py",
    "index/charts.py": "release/index/status_page.py",
    "index/copies.py": "release/index/generate.py",
    "index/getting_started.py": "release/index/pages.py",
    "index/markdown.py": "release/index/documents.py",
    "index/probe_steps.py": "release/probe/probe.py",
    "bisect/answers.py": "use/bisect/bisect_record.py",
    "index/sections.py": "release/index/site.py",
    "model/dependencies.py": "release/model/manifest.py",
    "pypi/plan.py": "release/pypi/project.py",
    "pypi/staging.py": "release/pypi/publish.py",
    "release/canary_records.py": "release/latest/channels.py",
    "release/health.py": "release/judging/status.py",
    "release/issue_records.py": "release/judging/status.py",
    "release/learnt.py": "release/latest/catalogue.py",
    "release/standing.py": "release/judging/scorecard.py",
    "release/verify.py": "release/transaction/publish.py",
    "model/schemas": "release/model/schemas",
    "model/recipes.toml": "ground/llvm/recipes.toml",
    "host/builds.txt": "ground/python/builds.txt",
    "release/canaries.py": "release/latest/canary_records.py",
    "doctor/projects.py": "operate/doctor/releases.py",
    "doctor/pythons.py": "operate/doctor/releases.py",
    "doctor/cpython.toml": "operate/doctor/cpython.toml",
    "index/templates": "release/index/templates",
    "sdk/catalogue.toml": "builder/sdk/sources/catalogue.toml",
    "sdk/regalloc": "builder/sdk/regalloc",
    "projects": "builder/projects",
    "pypi": "release/pypi",
    "provenance": "release/provenance",
    "forge": "release/forge",
    "rehearsal": "release/rehearsal",
    "index": "release/index",
    "git": "ground/git",
    "bisect": "use/bisect",
    "doctor": "operate/doctor",
    "sdk": "builder/sdk",
    "wheels": "builder/wheels",
    "testing": "builder/testing",
}


def modules() -> dict[str, str]:
    """New path by old path, below ``mlir_release/``: of each module that moved."""
    return {f"{old}.py": f"{room}/{old.rpartition('/')[2]}.py" for room, olds in MOVES.items() for old in olds.split()}


def find(path: str) -> str:
    """The new path of a file or folder; the same if it did not move."""
    short = path.removeprefix("mlir_release/").rstrip("/")
    table = {**modules(), **RENAMED}
    for end in range(len(short), 0, -1):
        if (end == len(short) or short[end] == "/") and short[:end] in table:
            return f"mlir_release/{table[short[:end]]}{short[end:]}"
    return path


def main(paths: list[str]) -> None:
    """Print the new path of each, or all moves."""
    for old in paths or [f"mlir_release/{old}" for old in {**modules(), **RENAMED}]:
        print(find(old) if paths else f"{old} -> {find(old)}")


if __name__ == "__main__":
    main(sys.argv[1:])
