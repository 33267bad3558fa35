"""The documentation's site: it builds without a warning, needs no other host, and can be searched."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house import ROOT

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
    assert {"index.html", "getting-started.html", "metrics.html", "evaluators.html"} <= places
    assert (site / "search" / "search_index.js").read_text("utf-8").startswith("var __index = {")


@pytest.mark.browser
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_site_is_accessible(site: Path, theme: Any, width: int) -> None:
    """axe-core finds nothing on a page of each kind, from a file and in both themes; no page is wider than the window,
    and none asks another host."""
    playwright = pytest.importorskip("playwright.sync_api")
    axe = ROOT / "tests" / "console" / "node_modules" / "axe-core" / "axe.min.js"
    chromium = shutil.which("chromium")
    if chromium is None or not axe.exists():
        pytest.skip("chromium or axe-core is not installed: CI=true python tests/prepare.py brings both")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        for name in ("index", "howto/fastapi", "api", "settings", "alerts"):
            page.goto((site / f"{name}.html").as_uri())
            if page.locator("article table, article pre").count():  # Material's script makes them scroll by keyboard
                page.wait_for_selector(".md-typeset__scrollwrap, pre > code[tabindex]")
            page.evaluate(axe.read_text("utf-8"))
            violations = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
            assert [(name, rule["id"], rule["nodes"][0]["html"]) for rule in violations] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        browser.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
