"""Take the screenshot of the README: `python -m tools.screenshot` writes docs/session.png.

Starts a server, plays the coding session of the demo, and photographs the page in a real browser.
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
from playwright.sync_api import Page, ViewportSize, sync_playwright

from ariadne.demo import coding_agent
from ariadne.demo.clock import PastClock
from ariadne.demo.player import Player
from tools.browser import find, launch_environment

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "session.png"
# Large enough to read in a README column, small enough to keep in a repository.
_SIZE: ViewportSize = {"width": 1360, "height": 850}
_START_TIMEOUT_S = 90.0
# The story takes no real time when it is played in the past.
_AGO = timedelta(minutes=20)


def main() -> None:
    with _server() as access:
        _play(access)
        with _page(access, "developer") as page:
            page.goto(f"/sessions/{coding_agent.STORY.session_id}/")
            page.get_by_test_id("compaction-marker").first.wait_for()
            # Select the second compaction, whose first summary was refused.
            page.keyboard.press("c")
            page.keyboard.press("c")
            page.get_by_test_id("inspector").get_by_text("Prompt before and after").wait_for()
            page.screenshot(path=PICTURE)
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1000} kB\n")


@contextlib.contextmanager
def _server() -> Iterator[dict[str, Any]]:
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


def _play(access: dict[str, Any]) -> None:
    exporter = AriadneExporter(f"{access['url']}/ingest", access["ingest_key"], spool_dir=None)
    storage = AriadneStorage(access["url"], access["ingest_key"], spool_dir=None)
    Player(coding_agent.STORY, exporter, storage, PastClock(_AGO)).play()
    exporter.flush(30.0)
    exporter.close()
    storage.close()


@contextlib.contextmanager
def _page(access: dict[str, Any], person: str) -> Iterator[Page]:
    path = find()
    login = access["logins"][person]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), env=dict(launch_environment(path)))
        page = browser.new_page(
            base_url=access["url"],
            viewport=_SIZE,
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
