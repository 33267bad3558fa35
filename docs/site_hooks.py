"""Hooks of the documentation's site: pages from other folders, and links to files that are no pages (mkdocs.yml)."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {"grafana/README.md": "dashboards.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository that are pages of the site, and the names of these pages in docs/."""
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are written in other folders."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links so that each leads to a page of the site, or to the file in the repository."""
    sources = {name: source for source, name in OUTSIDE.items()}
    path = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def target(match: re.Match[str]) -> str:
        aim = normpath(join(dirname(path), match[1]))
        name = OUTSIDE.get(aim, aim.removeprefix("docs/"))
        for place in (name, f"{name}.md"):
            if files.get_file_from_path(place):
                return relpath(place, dirname(page.file.src_uri) or ".")
        return f"{config.extra['repository']}/{aim}"

    return _LINK.sub(target, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the empty heads of table columns plain cells: a screen reader would announce them as headings."""
    return html.replace("<th></th>", "<td></td>")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the search dialog a name for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
