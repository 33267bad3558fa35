"""The documentation's site: it builds without a warning, needs no other host, and can be searched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:[^"'\s>]+)|<link[^>]*\shref=["']?(https?:[^"'\s>]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built. Unknown links, anchors and API names are warnings, and a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_site_needs_no_other_host(site: Path) -> None:
    """No page loads a script, a style or a picture from another host."""
    pages = list(site.rglob("*.html"))
    loaded = [f"{page.name}: {match[0]}" for page in pages for match in _LOADED.finditer(page.read_text("utf-8"))]
    assert len(pages) > 50
    assert not loaded


def test_site_can_be_searched(site: Path) -> None:
    """The search index has the text of every page that the navigation has, and is readable without a server."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"index.html", "getting-started.html", "dashboards.html", "evaluators.html"} <= places
    assert (site / "search" / "search_index.js").read_text("utf-8").startswith("var __index = {")
