from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from mlir_release.integrate.config import Config, load_config, read_config
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[3]

GOOD = """
[upstream]
url = "https://example.com/llvm.git"
[downstream]
submodule = "third_party/llvm"
[smoke]
command = "./smoke.sh --fast"
"""


def test_the_shortest_configuration() -> None:
    config = read_config(GOOD.encode(), where="x")
    assert config.smoke.argv == ("./smoke.sh", "--fast")
    assert config.track.paths == ("mlir", "utils/bazel")
    assert config.smoke.timeout == 5400
    assert config.upstreams[0].carrier == "third_party/llvm"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[smoke]", "[smoke]\ncolour = 1"), "smoke.colour is an unknown key; there are: command"),
        (("[upstream]", "[upsteam]"), "upsteam is an unknown key; did you mean 'upstream'?"),
        (('url = "https://example.com/llvm.git"', ""), "upstream.url is missing"),
        (('[upstream]\nurl = "https://example.com/llvm.git"', ""), "upstream is missing"),
        (('submodule = "third_party/llvm"', ""), "exactly one"),
        (('submodule = "third_party/llvm"', 'submodule = "x"\npin-file = "y"'), "exactly one"),
        (('"third_party/llvm"', '"../llvm"'), "inside the repository"),
        (('"third_party/llvm"', "3"), "downstream.submodule is not a string"),
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
        (("[smoke]", "[track]\npaths = []\n[smoke]"), "track.paths is empty"),
        (("[smoke]", '[walk]\nstrategy = "fast"\n[smoke]'), "walk.strategy is 'fast'; known are linear"),
        (("[smoke]", '[walk]\nbranch = "llvm"\n[smoke]'), "{date}"),
        (("[smoke]", '[track]\nignore-subjects = ["("]\n[smoke]'), "regular expression"),
        (("[smoke]", '[export]\nremote = "x"\n[smoke]'), "both remote and branch"),
        (("[smoke]", '[[export.also]]\npath = "x"\nremote = "y"\n[smoke]'), "export.also[0].branch is missing"),
        (("[smoke]", '[[export.also]]\npath = "../x"\nremote = "y"\nbranch = "z"\n[smoke]'), "inside the repository"),
        (("[smoke]", "[export]\nalso = [3]\n[smoke]"), "export.also[0] is not a table"),
        (("[smoke]", '[notify]\nurl = "discord://1/2"\n[smoke]'), "notify.url is an unknown key"),
        (("[smoke]", '[notify]\nvariable = "discord://1/2"\n[smoke]'), "not the name of an environment variable"),
        (("[smoke]", '[smoke]\nsubmodules = ["../x"]'), "inside the repository"),
        (("[upstream]", '[upstream]\nname = "two\\nlines"'), "must be on one line"),
        (("[smoke]", "[smoke"), "not TOML"),
    ],
)
def test_every_mistake_is_one_clear_error(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "integrate.toml").write_text(GOOD.replace(*change))
    error = refused(lambda: load_config(tmp_path), "config-invalid", says)
    assert "discord" not in str(error)


def test_the_documented_template_is_valid_and_whole() -> None:
    page = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
    template = page.partition("```toml\n")[2].partition("```")[0]
    config = read_config(template.encode(), where="docs")
    assert config.export.target is not None
    uncommented = "".join(line.removeprefix("# ") for line in template.splitlines(keepends=True))
    uncommented = uncommented.replace("submodule =", "# submodule =").replace(
        "checkout =", 'pin-file = "x"\ncheckout ='
    )
    full = read_config(uncommented.encode(), where="docs")
    assert [target.path for target in full.export.also] == ["third_party/torch-mlir"]
    unchanged = {
        f"{table}.{field.encode_name}"
        for table in full.__struct_fields__
        for field in msgspec.structs.fields(getattr(full, table))
        if getattr(getattr(full, table), field.name) == field.default
    }
    # What the template shows with its default value; all else must differ from the default, so it is in the template.
    assert unchanged == {
        *("upstream.branch", "downstream.branch", "downstream.remote", "downstream.submodule"),
        *("track.paths", "smoke.timeout-minutes", "smoke.attempts"),
        *("walk.strategy", "walk.width", "notify.variable"),
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


SEVERAL = """
[[upstream]]
url = "https://github.com/llvm/llvm-project"
submodule = "third_party/llvm"
[[upstream]]
url = "https://github.com/llvm/torch-mlir"
submodule = "third_party/torch-mlir"
[smoke]
command = "./smoke.sh"
"""


@pytest.mark.parametrize(
    ("pattern", "alone", "all_of_them"),
    [
        ("", "integrates/torch-mlir-20261120", "integrates/llvm+torch-mlir-20261120_2"),
        ('[walk]\nbranch = "bump/{date}/x"', "bump/torch-mlir-20261120/x", "bump/20261120/x"),
    ],
)
def test_a_branch_s_name_says_which_upstreams_it_walks(pattern: str, alone: str, all_of_them: str) -> None:
    config = read_config((SEVERAL + pattern).encode(), where="x")
    assert config.walked(alone) == (config.upstreams[1],)
    assert config.walked(all_of_them) == config.upstreams
    assert config.walked("main") == ()
