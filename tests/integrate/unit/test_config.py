from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from mlir_release.integrate.config import Config, load_config, read_config
from tests.made_up_project import registered
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[3]

GOOD = """
[upstream]
url = "https://example.com/llvm.git"
submodule = "third_party/llvm"
[smoke]
command = "./smoke.sh --fast"
"""


def test_the_shortest_configuration() -> None:
    config = read_config(GOOD.encode(), where="x")
    assert config.smoke.argv == ("./smoke.sh", "--fast")
    assert config.upstreams[0].paths == ("mlir", "utils/bazel")
    assert config.smoke.timeout == 5400
    assert config.upstreams[0].carrier == "third_party/llvm"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[smoke]", "[smoke]\ncolour = 1"), "smoke.colour is an unknown key; there are: command"),
        (("[upstream]", "[upsteam]"), "upsteam is an unknown key; did you mean 'upstream'?"),
        (('url = "https://example.com/llvm.git"', ""), "upstream.url is missing"),
        (
            ('[upstream]\nurl = "https://example.com/llvm.git"\nsubmodule = "third_party/llvm"', ""),
            "upstream is missing",
        ),
        (('submodule = "third_party/llvm"', ""), "exactly one"),
        (('submodule = "third_party/llvm"', 'submodule = "x"\npin-file = "y"'), "exactly one"),
        (('"third_party/llvm"', '"../llvm"'), "inside the repository"),
        (('"third_party/llvm"', "3"), "upstream.submodule is not a string"),
        (('command = "./smoke.sh --fast"', ""), "smoke.command is missing"),
        (
            ('command = "./smoke.sh --fast"', "command = 3"),
            "smoke.command is 3, not a command: a string, or a list of strings",
        ),
        (('command = "./smoke.sh --fast"', "command = [3]"), "smoke.command[0] is not a string"),
        (('command = "./smoke.sh --fast"', "command = []"), "command is empty"),
        (('command = "./smoke.sh --fast"', "command = '\"'"), "split into words"),
        (("[smoke]", "[smoke]\nattempts = 0"), "smoke.attempts is 0, not a whole number from 1 to 10"),
        (("[smoke]", "[smoke]\nattempts = true"), "smoke.attempts is True, not a whole number from 1 to 10"),
        (("[smoke]", "[smoke]\ntimeout-minutes = 0"), "smoke.timeout-minutes is 0, not a number above 0"),
        (("[smoke]", "[walk]\nwidth = 257\n[smoke]"), "walk.width is 257, not a whole number from 1 to 256"),
        (("[smoke]", "paths = []\n[smoke]"), "upstream.paths is empty"),
        (("[smoke]", '[walk]\nstrategy = "fast"\n[smoke]'), "walk.strategy is 'fast'; known are linear"),
        (("[smoke]", '[walk]\nbranch = "llvm"\n[smoke]'), "{date}"),
        (("[smoke]", 'ignore-subjects = ["("]\n[smoke]'), "regular expression"),
        (("[smoke]", '[upstream.export]\nremote = "x"\n[smoke]'), "upstream.export.branch is missing"),
        (("[smoke]", '[[export.also]]\npath = "x"\nremote = "y"\n[smoke]'), "export.also[0].branch is missing"),
        (("[smoke]", '[[export.also]]\npath = "../x"\nremote = "y"\nbranch = "z"\n[smoke]'), "inside the repository"),
        (("[smoke]", "[export]\nalso = [3]\n[smoke]"), "export.also[0] is not a table"),
        (("[smoke]", '[notify]\nurl = "discord://1/2"\n[smoke]'), "notify.url is an unknown key"),
        (("[smoke]", '[notify]\nvariable = "discord://1/2"\n[smoke]'), "not the name of an environment variable"),
        (("[smoke]", '[smoke]\nsubmodules = ["../x"]'), "inside the repository"),
        (("[smoke]", '[roll]\nmode = "paused"\n[smoke]'), "roll.mode is 'paused'; known are running, stopped, dry-run"),
        (("[smoke]", '[roll]\nhours = "22:00-06:00"\n[smoke]'), "roll.hours is no key any more; remove it"),
        (("[smoke]", '[roll]\nmode = "dry-run"\ndays = "sat"\n[smoke]'), "roll.days is no key any more; remove it"),
        (("[smoke]", '[fix]\ncommand = "x"\n[smoke]'), '"A program that fixes" in docs/integrate.md'),
        (("[smoke]", "[fix]\nautomatic = 7\nallowed = []\n[smoke]"), "fix is no table any more; remove it: a job of"),
        (("[upstream]", '[upstream]\nname = "two\\nlines"'), "must be on one line"),
        (("[smoke]", '[ci]\nbroken = "no"\n[smoke]'), "ci.broken is not"),
        (("[smoke]", '[land]\ntitle = ""\n[smoke]'), "must be on one line"),
        (("[smoke]", '[land]\ntitle = "two\\nlines"\n[smoke]'), "must be on one line"),
        (("[smoke]", '[land]\ntitle = "Integrate {sha}"\n[smoke]'), "has the field {sha}; known are {name}, {short}"),
        (("[smoke]", '[land]\ntitle = "Integrate {}"\n[smoke]'), "has the field {}"),
        (("[smoke]", '[land]\ntitle = "Integrate {name.__class__}"\n[smoke]'), "has the field {name.__class__}"),
        (("[smoke]", '[land]\ntitle = "Integrate {name!r}"\n[smoke]'), "without any format"),
        (("[smoke]", '[land]\ntitle = "Integrate {count:{count}}"\n[smoke]'), "without any format"),
        (("[smoke]", '[land]\ntitle = "Integrate {name"\n[smoke]'), "land.title is 'Integrate {name'"),
        (("[smoke]", "[smoke"), "not TOML"),
    ],
)
def test_every_mistake_is_one_clear_error(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "integrate.toml").write_text(GOOD.replace(*change))
    error = refused(lambda: load_config(tmp_path), "config-invalid", says)
    assert "discord" not in str(error)


SMOKE = '[smoke]\ncommand = "true"\n'
ONE = '[upstream]\nurl = "https://a.example/b"\npin-file = "x"\npattern = "(a)"\n'
TWO = (
    '[[upstream]]\nurl = "https://a.example/b"\nsubmodule = "x"\n'
    '[[upstream]]\nurl = "https://a.example/c"\nsubmodule = "y"\n'
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TWO.replace('url = "https://a.example/c"\n', ""), "upstream[1].url is missing"),
        (TWO.replace('"https://a.example/c"', "3"), "upstream[1].url is not a string"),
        (TWO.replace('submodule = "y"', "colour = 1"), "upstream[1].colour is an unknown key; there are: url"),
        (TWO.replace('submodule = "y"', ""), "upstream[1] needs exactly one of submodule and pin-file"),
        (TWO.replace('"y"', '"x"'), "upstream has two tables with the same carrier, 'x'"),
        (TWO.replace("a.example/c", "other.example/b"), "upstream has two tables with the same slug, 'b'"),
        (TWO + '[walk]\nbranch = "i/{date}"\n', "walk.branch needs {upstream} in it"),
        (TWO + '[export]\nremote = "x"\nbranch = "y"\n', "export.remote is an unknown key"),
        (TWO + '[downstream]\nsubmodule = "z"\n', "downstream.submodule is an unknown key"),
        (TWO + '[[upstream.also]]\nfile = "z"\npattern = 3\n', "upstream[1].also[0].pattern is not a string"),
        ("upstream = 3\n", "upstream is 3, not a table, or several: [[upstream]]"),
        ("upstream = []\n", "upstream is empty"),
        ("upstream = [3]\n", "upstream[0] is not a table"),
        (ONE.replace("(a)", "(a)(b)"), "upstream.pattern has 2 groups, and may have 1; write (?:…)"),
        (ONE.replace("(a)", "(a"), "upstream.pattern has '(a', not a regular expression"),
        (ONE.replace("pin-file", "submodule"), "upstream.pattern is for a pin file only"),
        (ONE + 'releases = "http://a.example/index.json"\n', "upstream.releases is not an https address"),
        (ONE + 'releases = "https://u:p@a.example/index.json"\n', "upstream.releases is not an https address"),
        (ONE + 'releases = "https://a.example/"\n', "upstream.distribution is missing"),
        (ONE + 'distribution = "x"\n', "upstream.distribution is for releases only"),
        (ONE.replace('pattern = "(a)"\n', 'releases = "https://a.example/x.json"\n'), "upstream.pattern is missing"),
        (ONE + '[[upstream.also]]\nfile = "z"\npattern = "x"\nvalue = "sha256"\n', "upstream.also[0].url is missing"),
        (ONE + '[[upstream.also]]\nfile = "z"\npattern = "x"\nvalue = "sha"\n', "did you mean 'sha256'?"),
        (ONE + '[[upstream.also]]\nfile = "../z"\npattern = "x"\n', "upstream.also[0].file is '../z', not a path"),
        (
            ONE + '[[upstream.also]]\nfile = "z"\npattern = "x"\nvalue = "sha256"\nurl = "https://a.example/x"\n',
            "upstream.also[0].url needs {commit} in it once",
        ),
        (ONE + '[upstream.refresh]\nfiles = ["z"]\n', "upstream.refresh.command is missing"),
        (ONE + '[upstream.refresh]\nfiles = []\ncommand = "x"\n', "upstream.refresh.files is empty"),
        (ONE + '[upstream.refresh]\nfiles = ["../z"]\ncommand = "x"\n', "not a path inside the repository"),
        (ONE + '[[upstream.patches]]\nfiles = ["-z"]\n', "upstream.patches[0].files is '-z', not a path inside"),
        (ONE + '[[upstream.patches]]\nfiles = ["z"]\nlisted-in = ["/z"]\n', "patches[0].listed-in is '/z', not a path"),
        (ONE + '[[upstream.patches]]\nfiles = ["z"]\napplied-by = "me"\n', "upstream.patches[0].applied-by is 'me'"),
    ],
)
def test_every_mistake_in_an_upstream_names_its_table(text: str, says: str) -> None:
    refused(lambda: read_config((text + SMOKE).encode(), where="x"), "config-invalid", says)


def test_the_documented_template_is_valid_and_whole() -> None:
    page = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
    template = page.partition("```toml\n")[2].partition("```")[0]
    config = read_config(template.encode(), where="docs")
    assert config.upstreams[0].export is not None
    uncommented = "".join(line.removeprefix("# ") for line in template.splitlines(keepends=True))
    uncommented = uncommented.replace("submodule =", 'pin-file = "x" # ')
    full = read_config(uncommented.encode(), where="docs")
    assert [target.path for target in full.export.also] == ["third_party/torch-mlir"]
    (upstream,) = full.upstreams
    tables = {name: getattr(full, name) for name in full.__struct_fields__} | {"upstream": upstream}
    unchanged = {
        f"{name}.{field.encode_name}"
        for name, table in tables.items()
        for field in msgspec.structs.fields(table)
        if getattr(table, field.name) == field.default
    }
    # What the template shows with its default value, or says otherwise; all else must differ from the default, so it is
    # in the template.
    assert unchanged == {
        *("upstream.branch", "upstream.submodule", "upstream.releases", "upstream.distribution", "upstream.paths"),
        *("downstream.branch", "downstream.remote"),
        *("smoke.timeout-minutes", "smoke.attempts", "walk.strategy", "walk.width", "notify.variable"),
        *("ci.broken", "land.title", "roll.mode"),
    }


@pytest.mark.parametrize(
    ("url", "given", "title", "branch"),
    [
        ("https://github.com/llvm/llvm-project.git", "", "LLVM", "integrates/llvm-{date}"),
        ("https://github.com/openxla/stablehlo", "", "stablehlo", "integrates/stablehlo-{date}"),
        ("git@github.com:llvm/torch-mlir.git", "", "torch-mlir", "integrates/torch-mlir-{date}"),
        ("../up/stream.git/", "", "stream", "integrates/stream-{date}"),
        ("https://github.com/our/fork.git", "Our LLVM!", "Our LLVM!", "integrates/our-llvm-{date}"),
        ("https://github.com/our/fork.git", "上流", "上流", "integrates/upstream-{date}"),
    ],
)
def test_the_upstream_has_a_name(tmp_path: Path, url: str, given: str, title: str, branch: str) -> None:
    changed = GOOD.replace("[upstream]", "[upstream]" + (f"\nname = {json.dumps(given)}" if given else ""))
    config = read_config(re.sub(r'(?m)^url = ".*"$', f'url = "{url}"', changed).encode(), where="x")
    assert (config.upstreams[0].title, config.branch_pattern(config.upstreams[0])) == (title, branch)


def test_the_schema_describes_every_key() -> None:
    tables = msgspec.json.schema(Config)["$defs"]
    for name, table in tables.items():
        assert table["description"], name
        assert not table["additionalProperties"]
        if name != "Config":
            assert all(key["description"] for key in table["properties"].values()), name


@pytest.mark.parametrize(
    ("pattern", "alone", "all_of_them"),
    [
        ("", "integrates/c-20261120", "integrates/b+c-20261120_2"),
        ('[walk]\nbranch = "bump/{upstream}/{date}"\n', "bump/c/20261120", "bump/b+c/20261120"),
    ],
)
def test_a_branch_s_name_says_which_upstreams_it_walks(pattern: str, alone: str, all_of_them: str) -> None:
    config = read_config((TWO + pattern + SMOKE).encode(), where="x")
    first, second = config.upstreams
    assert config.walked(alone) == (second,)
    assert config.walked(all_of_them) == (first, second)
    assert config.walked("main") == ()
    assert config.branch_pattern(second).replace("{date}", "20261120") == alone
    assert (config.date_of(alone, second), config.date_of(alone, first)) == (("20261120", 0), None)


def test_the_folders_of_a_project_are_the_default_paths() -> None:
    text = (
        '[upstream]\nurl = "https://github.com/llvm/llvm-project.git"\nsubmodule = "llvm"\n{}\n[smoke]\ncommand = "x"\n'
    )

    def paths(lines: str) -> tuple[str, ...]:
        return read_config(text.format(lines).encode(), where="integrate.toml").upstreams[0].paths

    with registered("plain"):
        assert paths("") == ("mlir", "utils/bazel")
        assert paths('project = "plain"') == ("plain",)
        assert paths('project = "plain"\npaths = ["mlir", "utils/bazel"]') == ("mlir", "utils/bazel")
        refused(lambda: paths('project = "plian"'), "config-invalid")
