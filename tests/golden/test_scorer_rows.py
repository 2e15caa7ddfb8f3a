"""The embedded judge on labelled rows, where they are at hand; they are not part of the project."""

from __future__ import annotations

import pytest
from bench.judge import (
    QUANTITY_KINDS,
    ROWS,
    auc,
    balanced,
    load,
    pairs_of,
    read_embedded,
    verdicts_of,
)

pytestmark = pytest.mark.skipif(not ROWS.is_dir(), reason="no labelled rows beside the project")


@pytest.mark.parametrize(
    ("name", "ranking", "accuracy"),
    [("mtrag_human", 0.95, 0.87), ("wice", 0.80, 0.70), ("perturb_synthetic", 0.95, 0.95)],
)
def test_faithfulness_holds_its_level(name: str, ranking: float, accuracy: float) -> None:
    reads = [read for read in map(read_embedded, load(name)) if not read.refused]
    assert auc(pairs_of(reads)) >= ranking
    assert balanced(verdicts_of(reads)) >= accuracy


def test_edits_are_caught_and_faithful_rows_left_alone() -> None:
    reads = [read_embedded(row) for row in load("perturb_synthetic")]
    changed = [read for read in reads if read.row["kind"] in QUANTITY_KINDS]
    assert sum(not read.passes for read in changed) >= 0.95 * len(changed)
    assert all(read.passes for read in reads if read.good)
    faithful = [read for read in map(read_embedded, load("mtrag_human")) if read.good]
    assert sum(read.contradicted for read in faithful) <= 1
