"""What uv is told so that it asks the same package index as pip.

Standard library only, and nothing newer than Python 3.7: ``tools/bootstrap.py`` reads it before anything is installed.
"""

import re

#: Settings of pip that say where packages come from, and the variables by which uv is told the same.
SETTINGS = {
    "index-url": "UV_INDEX_URL",
    "extra-index-url": "UV_EXTRA_INDEX_URL",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "proxy": "ALL_PROXY",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
}


def uv_settings(listed: str, given: "dict[str, str]") -> "tuple[list[str], dict[str, str]]":
    """uv's options and environment for what pip is configured with, by files and variables. uv reads nothing else.

    :param listed: the output of ``pip config list``
    :param given: the variables that uv gets besides
    """
    environment = {name: value for name, value in given.items() if not name.startswith("UV_")}
    environment.update(UV_NO_CONFIG="1", UV_SYSTEM_CERTS="1", UV_INDEX_STRATEGY="unsafe-best-match")  # pip's ways
    authorities = given.get("REQUESTS_CA_BUNDLE") or given.get("CURL_CA_BUNDLE")
    if authorities:
        environment["SSL_CERT_FILE"] = authorities
    options = []
    for section in ("global", "install", ":env:"):  # the last one counts
        for name, value in re.findall(rf"^{section}\.([\w-]+)='(.*)'$", listed, re.MULTILINE):
            words = value.replace("\\n", " ").split()
            if name in SETTINGS:
                environment[SETTINGS[name]] = ("," if name == "find-links" else " ").join(words)
            elif name == "no-index":
                options = ["--no-index"] if value.lower() in ("1", "on", "true", "yes") else []
    return options, environment
