"""Which addresses of others git may contact, and which of a repository's own settings it is asked about."""

from __future__ import annotations

import pytest

from mlir_release.ground.git.reach import NAMING, may_lead_to

THERE, HERE = "https://github.com/llvm/torch-mlir.git", "/srv/torch-mlir"


@pytest.mark.parametrize(
    ("address", "from_there", "from_here"),
    [
        ("https://github.com/llvm/llvm-project.git", True, True),
        ("https://user@host.example:8443/x", True, True),
        ("ssh://git@github.com/llvm/llvm-project", True, True),
        ("git@github.com:llvm/llvm-project.git", True, True),
        ("/etc", False, True),
        ("file:///etc", False, True),
        ("http://localhost:8080/x", False, True),
        ("https://127.0.0.1/x", False, False),
        ("http://example.org/x", False, False),
        ("git://example.org/x", False, False),
        ("ftp://example.org/x", False, False),
        ("ext::sh -c true", False, False),
        ("--upload-pack=true", False, False),
        ("-x/y", False, False),
        ("ssh://-oProxyCommand=true/x", False, False),
        ("git@-oProxyCommand=true:x", False, False),
        ("https://host.example/a b", False, False),
        ("", False, True),
    ],
)
def test_a_repository_of_others_leads_only_to_others(address: str, from_there: bool, from_here: bool) -> None:
    assert (may_lead_to(THERE, address), may_lead_to(HERE, address)) == (from_there, from_here)


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        (b"[core]\n\tbare = true\n[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant\n", False),
        (b'[remote "origin"]\n\turl = x\n\tfetch = allow\n', False),
        (b'[protocol "ext"]\n\tallow\n', True),
        (b"[push] recurseSubmodules=check", True),
        (b"[core]\r\n sshCommand=x\r\n", True),
        (b'[http "https://x"]\n\tsslCAPath= x', True),
        (b"[include]\n\tpath = x", True),
    ],
)
def test_git_is_asked_for_programs_only_where_a_setting_may_name_one(settings: bytes, asks: bool) -> None:
    """Each command of a repository with such a setting starts git twice."""
    assert bool(NAMING.search(settings)) is asks
