"""The two signals that are stored: which messages they are and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Literal

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

SignalName = Literal["traces", "logs", "metrics"]


@dataclass(frozen=True)
class Signal:
    """One OTLP signal: `entries`, `groups`, `items` are its three nested repeated fields."""

    name: SignalName
    request: Any
    response: type[Message]
    entries: str
    groups: str
    items: str
    json_key: str
    rejected: str
    table: str

    @cached_property
    def schema(self) -> str:
        """The .proto text by which the engine decodes this signal's segments."""
        folder = resources.files("stagewatch.core.store").joinpath("sql")
        return folder.joinpath(f"otlp_{self.name}.proto").read_text(encoding="utf-8")


TRACES = Signal(
    name="traces",
    request=ExportTraceServiceRequest,
    response=ExportTraceServiceResponse,
    entries="resource_spans",
    groups="scope_spans",
    items="spans",
    json_key="resourceSpans",
    rejected="rejected_spans",
    table="otlp_in",
)

LOGS = Signal(
    name="logs",
    request=ExportLogsServiceRequest,
    response=ExportLogsServiceResponse,
    entries="resource_logs",
    groups="scope_logs",
    items="log_records",
    json_key="resourceLogs",
    rejected="rejected_log_records",
    table="otlp_logs_in",
)

# Metrics are answered with a plain yes and counted: clients that send all three signals would
# otherwise fill their logs with errors.
METRICS = Signal(
    name="metrics",
    request=None,
    response=ExportMetricsServiceResponse,
    entries="resource_metrics",
    groups="scope_metrics",
    items="metrics",
    json_key="resourceMetrics",
    rejected="rejected_data_points",
    table="",
)


def stored_signal(name: str) -> Signal:
    """The signal with this name, of those that are stored."""
    return LOGS if name == "logs" else TRACES
