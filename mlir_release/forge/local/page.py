"""The page of a published release on a local forge: its body as HTML, and links to its assets."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from mlir_release.forge.base import Asset, Release

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
a { color: #0969da; } table { border-collapse: collapse; } th, td { padding: .3rem .8rem; border: 1px solid #d1d9e0; }
th { text-align: left; } td.size { text-align: right; } code { font-size: 85%; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #f0f6fc; } a { color: #4493f8; }
th, td { border-color: #3d444d; } }
"""


def render_page(release: Release, base: str) -> str:
    """The HTML that ``pip install -f`` and people read.

    Links to the release's own assets are relative, so that the page works wherever the folder is served from.

    :param base: URL of the release's folder, with a slash at the end; assets' URLs begin with it
    """
    title = escape(release.title or release.tag)
    when = release.published_at.strftime("%Y-%m-%d %H:%M UTC") if release.published_at else ""
    rows = "\n".join(_row(asset, release) for asset in release.assets)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p><code>{escape(release.tag)}</code>, published {when}</p>
{_markdown(release, base)}
<h2>Assets</h2>
<table>
<tr><th>file</th><th>bytes</th><th>sha256</th></tr>
{rows}
</table>
</body>
</html>
"""


def _row(asset: Asset, release: Release) -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in _core_metadata(asset.name, release).items())
    link = f'<a href="{quote(asset.name)}#sha256={asset.sha256}"{attributes}>{escape(asset.name)}</a>'
    return f'<tr><td>{link}</td><td class="size">{asset.size:,}</td><td><code>{asset.sha256}</code></td></tr>'


def _core_metadata(name: str, release: Release) -> dict[str, str]:
    """The attribute (PEP 714) by which pip learns that it can read ``<name>.metadata`` instead of the whole wheel."""
    metadata = release.asset(f"{name}.metadata")
    return {"data-core-metadata": f"sha256={metadata.sha256}"} if metadata else {}


def _markdown(release: Release, base: str) -> str:
    """The body as HTML: GitHub-like Markdown without raw HTML, because a release page never shows a script."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    is_safe = markdown.validateLink
    markdown.validateLink = lambda url: url.startswith(base) or is_safe(url)  # type: ignore[method-assign]
    tokens = markdown.parse(release.body)
    for token in tokens:
        for child in token.children or ():
            href = child.attrGet("href")
            if child.type == "link_open" and isinstance(href, str) and href.startswith(base):
                relative = href.removeprefix(base)
                child.attrSet("href", relative)
                for name, value in _core_metadata(unquote(relative.partition("#")[0]), release).items():
                    child.attrSet(name, value)
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    return rendered
