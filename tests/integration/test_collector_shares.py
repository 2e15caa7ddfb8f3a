"""Several collectors on one store: each assembles its share, together all of it, none twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import xxhash
from prometheus_client import CollectorRegistry
from tests.support.collector_process import a_request

from stagewatch.collector.assembler import Assembler
from stagewatch.collector.counters import Counters
from stagewatch.collector.frames import Frame, pack
from stagewatch.collector.segments import Sealed, TokenHash
from stagewatch.collector.writer import insert_segment
from stagewatch.core.clock import ManualClock
from stagewatch.core.errors import SettingsError
from stagewatch.core.model import LogRow, SpanRow, Turn
from stagewatch.core.settings import Settings, load_settings
from stagewatch.core.store import Store

pytestmark = pytest.mark.integration


def test_shares_cover_all_traces_and_none_twice(
    store: Store, settings: Settings, project: str, tmp_path: Path
) -> None:
    token, data, sent = TokenHash(), b"", set()
    for _ in range(40):
        request = a_request(3)
        body = request.SerializeToString()
        sent.add(request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex())
        frame = Frame(
            project, 1_796_040_000_000_000_000, 1, xxhash.xxh3_128_digest(body), len(body)
        )
        token.add(frame, pack(frame))
        data += pack(frame) + body
    path = tmp_path / token.name("traces")
    path.write_bytes(data)
    insert_segment(store, Sealed(path, "traces", len(data)))

    shares: list[set[str]] = []
    for number in (1, 2, 3):
        seen: set[str] = set()

        def assemble(
            spans: Sequence[SpanRow], logs: Sequence[LogRow], seen: set[str] = seen
        ) -> list[Turn]:
            assert not logs or spans
            seen.update(span.trace_id for span in spans if span.project == project)
            return []

        assembler = Assembler(
            store,
            ManualClock(datetime.now(UTC) + timedelta(minutes=5)),
            dataclasses.replace(settings, assembly_share=f"{number}/3"),
            Counters(CollectorRegistry()),
            assemble=assemble,
        )
        while assembler.step():
            pass
        shares.append(seen)
    assert set.union(*shares) == sent
    assert sum(map(len, shares)) == len(sent)
    assert all(shares)


@pytest.mark.parametrize("wrong", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_share_that_is_none_stops_the_start(wrong: str) -> None:
    with pytest.raises(SettingsError, match="STAGEWATCH_ASSEMBLY_SHARE"):
        load_settings({"STAGEWATCH_ASSEMBLY_SHARE": wrong})
