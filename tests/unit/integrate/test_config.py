from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from mlir_release.errors import UsageError
from mlir_release.integrate.config import load_config, parse_config

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
    config = parse_config(tomllib.loads(GOOD), where="x")
    assert config.command == ("./smoke.sh", "--fast")
    assert config.paths == ("mlir", "utils/bazel")
    assert config.carried_at == "third_party/llvm"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[smoke]", "[smoke]\ncolour = 1"), "colour"),
        (("[upstream]", "[upsteam]"), "upsteam"),
        (('url = "https://example.com/llvm.git"', ""), "url"),
        (('submodule = "third_party/llvm"', ""), "exactly one"),
        (('submodule = "third_party/llvm"', 'submodule = "x"\npin-file = "y"'), "exactly one"),
        (('"third_party/llvm"', '"../llvm"'), "inside the repository"),
        (('"third_party/llvm"', "3"), "a string"),
        (('command = "./smoke.sh --fast"', ""), "lacks the command"),
        (("[smoke]", "[smoke]\nattempts = 0"), "attempts"),
        (("[smoke]", "[smoke]\nattempts = true"), "whole number"),
        (("[smoke]", '[walk]\nstrategy = "fast"\n[smoke]'), "no strategy"),
        (("[smoke]", '[walk]\nbranch = "llvm"\n[smoke]'), "{date}"),
        (("[smoke]", '[track]\nignore-subjects = ["("]\n[smoke]'), "regular expression"),
        (("[smoke]", '[export]\nremote = "x"\n[smoke]'), "both remote and branch"),
        (("[smoke]", '[[export.also]]\npath = "x"\nremote = "y"\n[smoke]'), "[export.also] lacks the key 'branch'"),
        (("[smoke]", '[[export.also]]\npath = "../x"\nremote = "y"\nbranch = "z"\n[smoke]'), "inside the repository"),
        (("[smoke]", "[export]\nalso = [3]\n[smoke]"), "[export.also] must be a table"),
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
    config = parse_config(tomllib.loads(template), where="docs")
    assert config.export is not None
    uncommented = "".join(line.removeprefix("# ") for line in template.splitlines(keepends=True))
    uncommented = uncommented.replace("submodule =", "# submodule =").replace(
        "checkout =", 'pin-file = "x"\ncheckout ='
    )
    full = parse_config(tomllib.loads(uncommented), where="docs")
    assert [target.path for target in full.also_export] == ["third_party/torch-mlir"]
    unchanged = {field.name for field in fields(full) if getattr(full, field.name) == field.default}
    # What the template shows with its default value; all else must differ from the default, so it is in the template.
    assert unchanged == {
        *("upstream_branch", "main", "remote", "submodule", "paths", "timeout", "attempts"),
        *("branch", "strategy", "width", "notify_variable"),
    }
