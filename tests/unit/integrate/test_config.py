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
        (("[smoke]", '[roll]\nmode = "paused"\n[smoke]'), "roll.mode is 'paused'; known are running, stopped, dry-run"),
        (("[smoke]", '[roll]\nhours = "22-6"\n[smoke]'), "roll.hours are '22-6': '22-6' is no span of hours"),
        (("[smoke]", '[roll]\ndays = "weekend"\n[smoke]'), "roll.days are 'weekend': 'weekend' is no day"),
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


def test_the_documented_template_is_valid_and_whole() -> None:
    page = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
    template = page.partition("```toml\n")[2].partition("```")[0]
    config = read_config(template.encode(), where="docs")
    assert config.export.target is not None
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
        *("upstream.branch", "upstream.submodule", "upstream.releases", "upstream.distribution"),
        *("downstream.branch", "downstream.remote", "downstream.submodule", "downstream.pin-file"),
        *("downstream.checkout", "track.paths", "track.ignore-subjects"),
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
