"""Recall, false positives and speed of redaction."""

from __future__ import annotations

import json
import lzma
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from compact.redaction import DEFAULT_RULES, Redactor, default_redactor
from compact.redaction.prefilter import LiteralPrefilter
from compact.redaction.scanner import Scanner
from redaction_corpus import corpus

TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))


@pytest.mark.req("S-RED-1")
def test_recall_and_false_positives() -> None:
    """On the labeled corpus, at least 98% of secrets are masked and at most 2% of clean lines are changed."""
    redactor = default_redactor()
    masked: Counter[bool] = Counter()
    changed: Counter[bool] = Counter()
    for case in corpus():
        text, _ = redactor.text(case.text)
        if case.secret is None:
            changed[text != case.text] += 1
        else:
            masked[case.secret not in text] += 1
    recall = masked[True] / masked.total()
    false_positives = changed[True] / changed.total()
    print(
        f"\nrecall {recall:.1%} of {masked.total()} secrets, "
        f"false positives {false_positives:.1%} of {changed.total()} clean lines"
    )
    assert recall >= 0.98
    assert false_positives <= 0.02


def test_speed_and_redactions_on_recorded_sessions() -> None:
    """Report megabytes per second, and redactions per megabyte of public sessions."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"{TRANSCRIPTS} does not exist. Set COMPACT_TRANSCRIPTS.")
    texts: list[str] = []
    for file in sorted(TRANSCRIPTS.glob("*.jsonl.xz")):
        with lzma.open(file, "rt") as lines:
            texts += [message.get("content") or "" for line in lines for message in json.loads(line)["messages"]]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts) / 1e6
    fast, fallback = Redactor(), Redactor()
    fast.warm_up()
    fallback._scanner = Scanner(DEFAULT_RULES, LiteralPrefilter(DEFAULT_RULES))
    speeds: dict[str, float] = {}
    for name, redactor in (("with Hyperscan", fast), ("without Hyperscan", fallback)):
        counts: Counter[str] = Counter()
        started = time.thread_time()
        for text in texts:
            counts.update(redactor.text(text)[1])
        elapsed_s = time.thread_time() - started
        print(
            f"\n{name}: {size / elapsed_s:.1f} MB/s over {size:.1f} MB, {counts.total() / size:.1f} redactions per MB"
        )
        print(f"  {counts.most_common(8)}")
        speeds[name] = size / elapsed_s
    assert speeds["with Hyperscan"] > speeds["without Hyperscan"]
