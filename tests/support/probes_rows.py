"""Rows for probes to ask: confirmed, each with one passage that has to be found."""

from __future__ import annotations

from datetime import datetime

from stagewatch.core.model import DatasetRow, Need, Passage
from stagewatch.core.store import Store
from stagewatch.core.store.datasets import ensure_dataset, put_rows


def live_rows(
    store: Store, project: str, n: int, *, at: datetime, chunk_id: str = "refunds#1"
) -> list[DatasetRow]:
    """`n` rows in the dataset `live` of a project, stored."""
    found = [
        DatasetRow(
            row_id=f"r{i}", dataset="live", version_added=1, kind="happy_path", failure="ok",
            question=f"How long do refunds take, case {i}?", status="confirmed",
            needs=(Need((Passage(chunk_id=chunk_id),)),),
        )
        for i in range(n)
    ]  # fmt: skip
    ensure_dataset(store, project, "live", at=at)
    put_rows(store, project, found, at=at)
    return found
