"""`make bench`: ours is the best of the table on every column at the same budget, on recorded sessions."""

from __future__ import annotations

import pytest

from tests.bench.quality.__main__ import MEASURES, header, rows
from tests.bench.quality.cases import DATA
from tests.bench.quality.drift import drift_table
from tests.bench.quality.systems import SYSTEMS

EVERY = 10


@pytest.mark.skipif(not DATA.is_dir(), reason=f"NOT MEASURED: no recorded sessions at {DATA}; set QUALITY_DATA")
def test_ours_is_the_best_on_every_column():
    """Recall of what the future used, constraints, decisions, open items, replayed calls; all prompts valid."""
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
