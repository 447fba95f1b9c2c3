"""Record the animated picture of the README: `python -m tools.animation` writes docs/one-minute.svg.

Starts a server, imports the log of a Claude Code session with the commands that a reader would use, photographs the
pages in a real browser, and joins outputs and pages to one animated SVG.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize

from tools.screenshot import LOG, ROOT, open_page, serve

PICTURE = ROOT / "docs" / "one-minute.svg"
_SIZE: ViewportSize = {"width": 1040, "height": 640}
_CAPTION_HEIGHT = 44
_FRAME_S = 7
_LINE_HEIGHT = 21
_MAX_LINES = 29
_MAX_COLUMNS = 118
_STYLE = """
.frame {{ opacity: 0; animation: show {total}s step-end infinite; }}
@keyframes show {{ 0% {{ opacity: 1; }} {share:.3f}% {{ opacity: 0; }} }}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none; }} .frame.still {{ opacity: 1; }} }}
.caption {{ font: 600 19px system-ui, sans-serif; fill: #fff; }}
.terminal {{ font: 14px ui-monospace, monospace; fill: #d6deeb; white-space: pre; }}
.command {{ fill: #7ee787; }}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as home, serve() as access:
        folder = Path(home) / ".claude" / "projects" / "shop"
        folder.mkdir(parents=True)
        # The log has one damaged line, which is not a part of the story.
        lines = [line for line in LOG.read_bytes().splitlines(keepends=True) if b"broken" not in line]
        (folder / LOG.name).write_bytes(b"".join(lines))
        watch = _run(["watch", "--once"], home, access)
        back = _run(["uncompact"], home, access)
        with open_page(access, "developer", _SIZE) as page:
            frames = [
                ("1  Run your agent. Ariadne reads its log, or sits between it and the model.", watch),
                ("2  It compacted: the prompt of each call, and where it fell.", _photograph(page, "/", "")),
                (
                    "3  What happened to each message.",
                    _photograph(page, "/compactions/2/", "[data-testid=inferred-note]"),
                ),
                ("4  What was lost.", _photograph(page, "/compactions/2/", "#retention-title")),
                ("5  Given back, short enough to paste. Over MCP, the agent asks for it by itself.", back),
            ]
    PICTURE.write_text(_draw(frames))
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1000} kB\n")


def _run(arguments: list[str], home: str, access: dict[str, Any]) -> str:
    """Return a command and its output, as SVG."""
    variables = {"HOME": home, "ARIADNE_URL": access["url"], "ARIADNE_API_KEY": access["ingest_key"]}
    command = [sys.executable, "-m", "compact.cli", *arguments]
    result = subprocess.run(  # noqa: S603 - our own command
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=True
    )
    # The address and the folder of this recording say nothing to a reader.
    output = result.stdout.replace(access["url"], "http://127.0.0.1:8000").replace(home, "~")
    lines = [re.sub(r" {2,}", "  ", line)[:_MAX_COLUMNS] for line in output.splitlines()][: _MAX_LINES - 1]
    texts = [f'<tspan class="command">$ compactctl {escape(" ".join(arguments))}</tspan>', *map(escape, lines)]
    top = _CAPTION_HEIGHT + 2 * _LINE_HEIGHT
    rows = (f'<text class="terminal" x="24" y="{top + n * _LINE_HEIGHT}">{text}</text>' for n, text in enumerate(texts))
    return f'<rect y="{_CAPTION_HEIGHT}" width="100%" height="100%" fill="#0d1117"/>{"".join(rows)}'


def _photograph(page: Page, path: str, anchor: str) -> str:
    """Return a page as an image, from the top or from an element."""
    page.goto(f"/sessions/{LOG.stem}{path}")
    page.wait_for_load_state("networkidle")
    if anchor:
        page.locator(anchor).evaluate("element => element.scrollIntoView()")
        page.mouse.wheel(0, -70)
        page.wait_for_timeout(300)
    data = base64.b64encode(page.screenshot(type="jpeg", quality=62)).decode()
    size = f'width="{_SIZE["width"]}" height="{_SIZE["height"]}"'
    return f'<image y="{_CAPTION_HEIGHT}" {size} href="data:image/jpeg;base64,{data}"/>'


def _draw(frames: list[tuple[str, str]]) -> str:
    total = len(frames) * _FRAME_S
    width, height = _SIZE["width"], _SIZE["height"] + _CAPTION_HEIGHT
    parts = []
    for number, (caption, content) in enumerate(frames):
        # A negative delay starts a later frame in the middle of its cycle.
        delay = number * _FRAME_S - total if number else 0
        still = " still" if "lost" in caption else ""
        parts.append(
            f'<g class="frame{still}" style="animation-delay: {delay}s"><rect width="100%" height="{_CAPTION_HEIGHT}" '
            f'fill="#1f2937"/><text class="caption" x="24" y="29">{escape(caption)}</text>{content}</g>'
        )
    style = _STYLE.format(total=total, share=100 / len(frames))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="One minute with Ariadne"><style>{style}</style>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    main()
