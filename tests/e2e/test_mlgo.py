"""An llc that is linked from stock archives with a policy inside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mlir_release.errors import VerificationError
from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpus import load_corpus
from mlir_release.extras.mlgo.embed import compare, embed
from mlir_release.extras.mlgo.evaluate import load_policy
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.host.cache import cache_directory
from mlir_release.sdk.debian import DebianPackages
from mlir_release.sdk.releases import find_release
from mlir_release.sdk.source import fetch_source
from tests.integration.extras.mlgo.conftest import make_build, mlgo, said, use_clang

ROOT = Path(__file__).parents[2]


@pytest.fixture
def llvm(monkeypatch: pytest.MonkeyPatch) -> Path:
    packages = DebianPackages(cache_directory())
    if not packages.available():
        pytest.skip("NO POLICY WAS EMBEDDED: it needs LLVM's packages of Debian or Ubuntu")
    return use_clang(packages, monkeypatch)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_an_embedded_policy_decides_as_the_interactive_one(kind: str, llvm: Path, tmp_path: Path) -> None:
    build, corpus, policy, output = (tmp_path / name for name in ("build", "corpus", "run/policy.json", "embedded"))
    make_build(llvm, build)
    said(mlgo("corpus", build, "-o", corpus, "--llvm", llvm, "--json"))
    said(mlgo("trace", corpus, "--llvm", llvm, "--json"))
    few = ("--generations", "1", "--pairs", "1", "--policy", kind, "--hidden", "4")
    said(mlgo("train", corpus, "-o", policy.parent, "--llvm", llvm, *few, "--json"))
    toolchain = Toolchain(llvm)
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    words = ("embed", policy, "--llvm", llvm, "-o", output, "--source", source, "--check", corpus)
    found = said(mlgo(*words, "--json"))
    loaded = load_corpus(corpus)
    assert found["identical"] == len(loaded.modules) == 5
    assert (found["policy"], found["corpus"]) == (load_policy(policy).digest, loaded.digest)

    # Without the option, the llc is the stock one.
    ours, theirs = Compiler(toolchain, loaded, corpus, path=output / "llc"), Compiler(toolchain, loaded, corpus)
    assert all(ours.compile(module, emit=True) == theirs.compile(module, emit=True) for module in loaded.modules)

    # The comparison sees another policy.
    other = load_policy(policy)
    policy.write_text(msgspec.structs.replace(other, weights=(0.0,) * len(other.weights)).to_text())
    embedded = embed(other, toolchain, tmp_path / "other")
    with pytest.raises(VerificationError) as caught:
        compare(("llc",), embedded, load_policy(policy), toolchain, loaded, corpus, output)
    assert caught.value.id == "model-unsuitable"


@pytest.mark.slow
def test_the_demonstration_ends_with_a_report(tmp_path: Path) -> None:
    few = ("--limit", "6", "--minutes", "0.01", "--output", str(tmp_path))
    subprocess.run([sys.executable, str(ROOT / "tools" / "mlgo_demo.py"), *few], check=True)
    embedded = json.loads((tmp_path / "run" / "embedded.json").read_bytes())
    evaluated = json.loads((tmp_path / "run" / "evaluation.json").read_bytes())
    assert embedded["identical"] == 6
    assert embedded["policy"] == evaluated["policy"]
    assert len(evaluated["runs"]) == 14  # of so few modules, llc compiles two
    assert evaluated["runs"][-1]["run"] == "smoke test"
    assert evaluated["verdict"] in (tmp_path / "report.html").read_text()
