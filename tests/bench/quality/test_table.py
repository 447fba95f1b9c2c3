"""`make bench`: on recorded sessions, compaction beats the other systems in every measure at the same budget."""

from __future__ import annotations

import pytest

from tests.bench.quality.__main__ import MEASURES, header, rows
from tests.bench.quality.cases import DATA
from tests.bench.quality.drift import drift_table
from tests.bench.quality.systems import SYSTEMS

EVERY = 10


@pytest.mark.skipif(not DATA.is_dir(), reason=f"NOT MEASURED: {DATA} has no recorded sessions. Set QUALITY_DATA.")
def test_compaction_is_best_in_every_measure():
    """Facts, constraints, decisions, open items and replayed calls are kept best, and all prompts are valid."""
    print(f"\n{header()}")
    table = {}
    for name in SYSTEMS:
        for label, row in rows(name, every=EVERY).items():
            table[label] = row
            print(row.line, flush=True)
    ours = table["ours"]
    others = [row for label, row in table.items() if not label.startswith("ours")]
    for column in MEASURES:
        assert ours.means[column] >= max(row.means[column] for row in others), column
    assert ours.valid == 1.0
    print(drift_table())
