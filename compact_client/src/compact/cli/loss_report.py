"""The worst compactions of an import, for people and for scripts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from compact.cli.terminal import escape_line
from compact.delivery.endpoint import server_url, without_credentials
from compact.importers.follower import FileReport
from compact.importers.losses import CompactionLoss, worst_losses

_MAX_CHARS = 200


def write(reports: Sequence[FileReport], url: str | None) -> None:
    """Print the worst compactions, the command that gives back what they lost, and the address of the server."""
    losses = worst_losses(loss for report in reports for loss in report.losses)
    if losses:
        log = next(report.file for report in reports if losses[0] in report.losses)
        sys.stdout.write("\nThe compactions that lost the most:\n\n")
        sys.stdout.writelines(f"{line}\n" for loss in losses for line in (*lines(loss, url), ""))
        command = f"compactctl uncompact {escape_line(shlex.quote(str(log)))}"
        sys.stdout.write(f"Get it back: {command} (more in docs/GETTING_IT_BACK.md)\n")
    if url:
        sys.stdout.write(f"All sessions: {server_url(without_credentials(url), '/')}\n")


def lines(loss: CompactionLoss, url: str | None) -> Iterator[str]:
    """Yield the compaction with its worst losses and the address of its page."""
    figures = f"{loss.facts_lost:,} of {loss.facts_total:,} facts lost"
    at = f", {escape_line(loss.at)}" if loss.at else ""
    yield f"  {figures} in compaction {loss.compaction} of {escape_line(loss.session)}{at}"
    for item in loss.items:
        text = " ".join(item.text.split())
        text = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
        yield f"    {item.kind.replace('_', ' '):<10} {escape_line(text)}"
    if url:
        yield f"    {loss.address(url)}"


def to_dict(loss: CompactionLoss, url: str | None) -> dict[str, Any]:
    """Return the compaction for `--json`."""
    return {
        "session": loss.session,
        "compaction": loss.compaction,
        "at": loss.at,
        "facts_total": loss.facts_total,
        "facts_lost": loss.facts_lost,
        "lost": [{"kind": item.kind, "text": item.text} for item in loss.items],
        "url": loss.address(url) if url else None,
    }
