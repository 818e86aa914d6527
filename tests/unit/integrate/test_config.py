from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mlir_release.errors import UsageError
from mlir_release.integrate.config import Config, load_config, read_config

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
    assert config.downstream.carrier == "third_party/llvm"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[smoke]", "[smoke]\ncolour = 1"), "smoke: has no key 'colour'"),
        (("[upstream]", "[upsteam]"), "integrate.toml: has no key 'upsteam'"),
        (('url = "https://example.com/llvm.git"', ""), "upstream: lacks the key 'url'"),
        (('[upstream]\nurl = "https://example.com/llvm.git"', ""), "integrate.toml: lacks the key 'upstream'"),
        (('submodule = "third_party/llvm"', ""), "exactly one"),
        (('submodule = "third_party/llvm"', 'submodule = "x"\npin-file = "y"'), "exactly one"),
        (('"third_party/llvm"', '"../llvm"'), "inside the repository"),
        (('"third_party/llvm"', "3"), "downstream.submodule: must be a string, not a whole number"),
        (('command = "./smoke.sh --fast"', ""), "smoke: lacks the key 'command'"),
        (('command = "./smoke.sh --fast"', "command = 3"), "smoke.command: must be a string or a list"),
        (('command = "./smoke.sh --fast"', "command = [3]"), "smoke.command[0]: must be a string"),
        (('command = "./smoke.sh --fast"', "command = []"), "command is empty"),
        (('command = "./smoke.sh --fast"', "command = '\"'"), "split into words"),
        (("[smoke]", "[smoke]\nattempts = 0"), "smoke.attempts: must be a whole number >= 1"),
        (("[smoke]", "[smoke]\nattempts = true"), "smoke.attempts: must be a whole number, not true or false"),
        (("[smoke]", "[smoke]\ntimeout-minutes = 0"), "smoke.timeout-minutes: must be a number > 0"),
        (("[smoke]", "[walk]\nwidth = 257\n[smoke]"), "walk.width: must be a whole number <= 256"),
        (("[smoke]", "[track]\npaths = []\n[smoke]"), "track.paths: must be a list of length >= 1"),
        (("[smoke]", '[walk]\nstrategy = "fast"\n[smoke]'), "no strategy"),
        (("[smoke]", '[walk]\nbranch = "llvm"\n[smoke]'), "{date}"),
        (("[smoke]", '[track]\nignore-subjects = ["("]\n[smoke]'), "regular expression"),
        (("[smoke]", '[export]\nremote = "x"\n[smoke]'), "both remote and branch"),
        (("[smoke]", '[[export.also]]\npath = "x"\nremote = "y"\n[smoke]'), "export.also[0]: lacks the key 'branch'"),
        (("[smoke]", '[[export.also]]\npath = "../x"\nremote = "y"\nbranch = "z"\n[smoke]'), "inside the repository"),
        (("[smoke]", "[export]\nalso = [3]\n[smoke]"), "export.also[0]: must be a table"),
        (("[smoke]", '[notify]\nurl = "discord://1/2"\n[smoke]'), "no key 'url'"),
        (("[smoke]", '[notify]\nvariable = "discord://1/2"\n[smoke]'), "name of an environment variable"),
        (("[smoke]", "[smoke"), "not TOML"),
    ],
)
def test_every_mistake_is_one_clear_error(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "integrate.toml").write_text(GOOD.replace(*change))
    with pytest.raises(UsageError) as caught:
        load_config(tmp_path)
    assert caught.value.id == "integrate-config-invalid"
    assert says in caught.value.what
    assert "discord" not in str(caught.value)


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
        *("walk.branch", "walk.strategy", "walk.width", "notify.variable"),
    }


def test_the_schema_describes_every_key() -> None:
    tables = msgspec.json.schema(Config)["$defs"]
    for name, table in tables.items():
        assert table["description"], name
        assert not table["additionalProperties"]
        if name != "Config":
            assert all(key["description"] for key in table["properties"].values()), name
