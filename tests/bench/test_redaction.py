"""How much redaction finds, how often it cries wolf, and how fast it is."""

from __future__ import annotations

import json
import lzma
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from compact.redaction import Redactor, default_redactor
from redaction_corpus import corpus

TRANSCRIPTS = Path(os.environ.get("ARIADNE_TRANSCRIPTS", "../shared/data/transcripts"))


@pytest.mark.req("S-RED-1")
def test_recall_and_false_alarms() -> None:
    """On the labelled corpus: at least 98 of 100 secrets hidden, at most 2 of 100 clean lines touched."""
    redactor = default_redactor()
    hidden: Counter[bool] = Counter()
    touched: Counter[bool] = Counter()
    for case in corpus():
        text, _ = redactor.text(case.text)
        if case.secret is None:
            touched[text != case.text] += 1
        else:
            hidden[case.secret not in text] += 1
    recall = hidden[True] / hidden.total()
    alarms = touched[True] / touched.total()
    print(f"\nrecall {recall:.1%} of {hidden.total()}, false alarms {alarms:.1%} of {touched.total()} clean lines")
    assert recall >= 0.98
    assert alarms <= 0.02


def test_speed_and_alarms_on_real_transcripts() -> None:
    """Megabytes a second, and what is hidden per megabyte of sessions that are public already."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"no transcripts in {TRANSCRIPTS}: set ARIADNE_TRANSCRIPTS")
    texts: list[str] = []
    for file in sorted(TRANSCRIPTS.glob("*.jsonl.xz")):
        with lzma.open(file, "rt") as lines:
            texts += [message.get("content") or "" for line in lines for message in json.loads(line)["messages"]]
    size = sum(map(len, texts)) / 1e6
    for name, redactor in (("all rules", default_redactor()), ("secrets only", Redactor(pii=False))):
        counts: Counter[str] = Counter()
        started = time.thread_time()
        for text in texts:
            counts.update(redactor.text(text)[1])
        taken = time.thread_time() - started
        print(f"\n{name}: {size / taken:.1f} MB/s over {size:.1f} MB; {counts.total() / size:.1f} hidden a MB")
        print(f"  {counts.most_common(8)}")
    assert size / taken > 1
