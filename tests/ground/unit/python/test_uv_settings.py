"""uv asks the package index that pip is configured with."""

from __future__ import annotations

from mlir_release.ground.python.uv_settings import uv_settings

LISTED = """:env:.index-url='https://user:word@mirror/simple'
:env:.no-index='0'
global.cert='/etc/ours.pem'
global.extra-index-url='\\nhttps://a/simple\\nhttps://b/simple'
global.index-url='https://file/simple'
install.find-links='/wheels https://c/links'
install.no-index='true'
"""


def test_uv_is_told_all_that_pip_is_configured_with_and_nothing_else() -> None:
    options, environment = uv_settings(LISTED, {"UV_INDEX_URL": "https://elsewhere", "HOME": "/root"})
    expected = {
        "HOME": "/root",
        "UV_INDEX_URL": "https://user:word@mirror/simple",
        "UV_EXTRA_INDEX_URL": "https://a/simple https://b/simple",
        "UV_FIND_LINKS": "/wheels,https://c/links",
        "SSL_CERT_FILE": "/etc/ours.pem",
        "UV_NO_CONFIG": "1",
    }
    assert (options, environment | expected) == ([], environment)
    assert uv_settings("global.no-index='true'\n", {})[0] == ["--no-index"]


def test_the_authorities_of_requests_are_those_of_uv_too() -> None:
    given = {"REQUESTS_CA_BUNDLE": "/etc/ours.pem"}
    assert uv_settings("", given)[1]["SSL_CERT_FILE"] == "/etc/ours.pem"
    assert uv_settings(":env:.cert='/etc/pips.pem'\n", given)[1]["SSL_CERT_FILE"] == "/etc/pips.pem"
