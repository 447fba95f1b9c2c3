"""Take the pictures of the documentation: `python -m tools.screenshot` writes docs/session.png and docs/lost-facts.png.

Starts a server, plays the coding session of the demo, and photographs its pages in a real browser.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from compact import AriadneExporter, AriadneStorage
from playwright.sync_api import FloatRect, Page, ViewportSize, sync_playwright

from ariadne.demo import coding_agent
from ariadne.demo.clock import PastClock
from ariadne.demo.player import Player
from tools.browser import find, launch_environment

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs"
# Large enough to read in a README column, small enough to keep in a repository.
_SIZE: ViewportSize = {"width": 1360, "height": 850}
_MARGIN = 8
LOG = ROOT / "tests/client/agents/claude_code/logs/version_2/7f3d9a10-4b1e-4c57-9a51-0d2b6f3c8e11.jsonl"
_START_TIMEOUT_S = 90.0
# The story takes no real time when it is played in the past.
_AGO = timedelta(minutes=20)


def main() -> None:
    with serve() as access:
        play(access)
        _import_log(access)
        with open_page(access, "developer", _SIZE) as page:
            pictures = [_photograph_session(page), _photograph_lost_facts(page)]
    for picture in pictures:
        sys.stdout.write(f"{picture.relative_to(ROOT)}: {picture.stat().st_size // 1000} kB\n")


def _photograph_session(page: Page) -> Path:
    """Photograph the session with its second compaction, whose first summary was refused."""
    page.goto(f"/sessions/{coding_agent.STORY.session_id}/")
    page.get_by_test_id("compaction-marker").first.wait_for()
    page.keyboard.press("c")
    page.keyboard.press("c")
    page.get_by_test_id("inspector").get_by_text("Prompt before and after").wait_for()
    page.screenshot(path=PICTURES / "session.png")
    return PICTURES / "session.png"


def _photograph_lost_facts(page: Page) -> Path:
    """Photograph the facts that a compaction of Claude Code lost, and the commands that give them back."""
    page.goto(f"/sessions/{LOG.stem}/compactions/2/")
    boxes = [page.get_by_role("region", name=name, exact=True).bounding_box() for name in ("Facts", "Get it back")]
    page.screenshot(path=PICTURES / "lost-facts.png", full_page=True, clip=_around(boxes))
    return PICTURES / "lost-facts.png"


def _around(boxes: list[FloatRect | None]) -> FloatRect:
    """Return the smallest rectangle around the boxes, with a margin."""
    known = [box for box in boxes if box is not None]
    left, top = (min(box[side] for box in known) - _MARGIN for side in ("x", "y"))
    right = max(box["x"] + box["width"] for box in known) + _MARGIN
    bottom = max(box["y"] + box["height"] for box in known) + _MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


@contextlib.contextmanager
def serve() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PORT": "0", "DEMO": "0", "DATA_DIR": folder}
        process = subprocess.Popen(
            [sys.executable, "-m", "ariadne.runtime.up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            _wait_for_banner(process)
            yield json.loads((Path(folder) / "credentials.json").read_text())
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_for_banner(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + _START_TIMEOUT_S
    for line in process.stdout:
        if "Ctrl-C stops" in line:
            return
        if time.monotonic() > deadline:
            break
    raise RuntimeError("the server did not start")


def play(access: dict[str, Any]) -> None:
    exporter = AriadneExporter(f"{access['url']}/ingest", access["ingest_key"], spool_dir=None)
    storage = AriadneStorage(access["url"], access["ingest_key"], spool_dir=None)
    Player(coding_agent.STORY, exporter, storage, PastClock(_AGO)).play()
    exporter.flush(30.0)
    exporter.close()
    storage.close()


def _import_log(access: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "compact.cli", "import", str(LOG), "--json"]
    variables = {"ARIADNE_URL": access["url"], "ARIADNE_API_KEY": access["ingest_key"]}
    # The log has a damaged line, which is reported.
    subprocess.run(  # noqa: S603 - our own command
        command, env={**os.environ, **variables}, capture_output=True, timeout=60, check=False
    )


@contextlib.contextmanager
def open_page(access: dict[str, Any], person: str, size: ViewportSize) -> Iterator[Page]:
    path = find()
    login = access["logins"][person]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), env=dict(launch_environment(path)))
        page = browser.new_page(
            base_url=access["url"],
            viewport=size,
            color_scheme="light",
            reduced_motion="reduce",
            # Dismiss the first-visit tour, which would cover the page.
            storage_state={
                "cookies": [],
                "origins": [{"origin": access["url"], "localStorage": [{"name": "first-look", "value": "seen"}]}],
            },
        )
        page.goto("/login/")
        page.fill("input[name=username]", login["username"])
        page.fill("input[name=password]", login["password"])
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/login/" not in url)
        yield page
        browser.close()


if __name__ == "__main__":
    main()
