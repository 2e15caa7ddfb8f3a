"""How long things are kept: whole day partitions of spans and turns, and what was said of them.

Dataset rows, labels, feedback, keys and the audit log stay: rows hold a full copy of their turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from stagewatch.core.store.client import Store

EXPIRES_BY: Mapping[str, str] = {
    "spans": "day",
    "logs": "day",
    "trace_index": "day",
    "turns": "toDate(started_at)",
    "scores": "toDate(started_at)",
    "claims": "toDate(started_at)",
    "diagnoses": "toDate(started_at)",
    "decisions": "toDate(started_at)",
}
"""Table → the date that its rows expire by."""


def set_retention(store: Store, days: int) -> None:
    """Have rows dropped `days` (at least 1) after their date, where that is not so already."""
    for table, date in EXPIRES_BY.items():
        made = store.value(
            "SELECT create_table_query FROM system.tables "
            "WHERE database = currentDatabase() AND name = {table:String}",
            {"table": table},
        )
        if f"toIntervalDay({days})" in str(made):
            continue
        store.command(
            f"ALTER TABLE {table} MODIFY TTL {date} + INTERVAL {int(days)} DAY "
            "SETTINGS materialize_ttl_after_modify = 0"
        )
