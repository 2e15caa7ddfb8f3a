"""What of a request can be stored: ids and strings are checked, nothing else is touched.

A clean body passes as the bytes it came in. Only one that holds a bad item goes the slow way,
which drops just that item and writes the rest anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from stagewatch.collector.frames import TornFrameError, read_varint
from stagewatch.collector.refusal import bad_request
from stagewatch.collector.signals import Signal

BAD_TRACE_ID = "trace_id is not 16 bytes, or all zero"
BAD_SPAN_ID = "span_id is not 8 bytes, or all zero"
BAD_TEXT = "a string is not valid UTF-8"
BAD_RESOURCE = "its resource or scope holds a string that is not valid UTF-8"

_ENTRY_TAG = 0x0A  # field 1, length-delimited: the only field of an export request
_ZERO_TRACE = bytes(16)
_ZERO_SPAN = bytes(8)
_trace_id = attrgetter("trace_id")
_span_id = attrgetter("span_id")


@dataclass(frozen=True, slots=True)
class Checked:
    """A body as it may be stored: `entries` resource entries with `items` spans or records.

    `rejected` counts the items left out by reason; nothing is to be stored when `items` is 0.
    """

    body: bytes | bytearray
    entries: int
    items: int
    rejected: Counter[str]

    @property
    def message(self) -> str:
        """The reasons in one line, for partial_success; never content."""
        return "; ".join(f"{n}: {reason}" for reason, n in self.rejected.most_common(5))


def top_level_entries(body: bytes | bytearray) -> int | None:
    """How many resource entries a request has when it has nothing else, else None.

    Whatever else stands at the top (a frame of ours that a sender made up, say) must not get into
    a segment.
    """
    at = entries = 0
    size = len(body)
    try:
        while at < size:
            if body[at] != _ENTRY_TAG:
                return None
            length, at = read_varint(body, at + 1)
            at += length
            entries += 1
    except TornFrameError:
        return None
    return entries if at == size else None


def check_protobuf(signal: Signal, body: bytes | bytearray) -> Checked:
    """A protobuf request body, checked.

    Raises:
        RefusedError: 400, the bytes are not this request.
    """
    try:
        message = signal.request.FromString(body)
    except DecodeError:
        return _salvage(signal, body)
    entries = top_level_entries(body)
    if entries is not None:
        items = _clean_items(signal, message)
        if items is not None:
            return Checked(body, entries, items, Counter())
    if body and not getattr(message, signal.entries):
        # Garbage often passes as a message of unknown fields; a yes would drop it without a word.
        raise bad_request(f"there is no {signal.entries} in the body")
    return sift(signal, message, Counter())


def _clean_items(signal: Signal, message: Any) -> int | None:  # noqa: ANN401 - either request
    """The number of items when all of them can be stored, else None."""
    total = 0
    if signal.name == "logs":
        for entry in message.resource_logs:
            total += sum(len(group.log_records) for group in entry.scope_logs)
        return total
    for entry in message.resource_spans:
        for group in entry.scope_spans:
            spans = group.spans
            total += len(spans)
            traces = set(map(_trace_id, spans))
            ids = list(map(_span_id, spans))
            if (
                _ZERO_TRACE in traces
                or _ZERO_SPAN in ids
                or not {len(trace) for trace in traces} <= {16}
                or not set(map(len, ids)) <= {8}
            ):
                return None
    return total


def fault_of(span: Any) -> str | None:  # noqa: ANN401 - a Span message
    """Why a span cannot be stored, None when it can."""
    if len(span.trace_id) != 16 or span.trace_id == _ZERO_TRACE:
        return BAD_TRACE_ID
    if len(span.span_id) != 8 or span.span_id == _ZERO_SPAN:
        return BAD_SPAN_ID
    return None


def sift(signal: Signal, message: Any, rejected: Counter[str]) -> Checked:  # noqa: ANN401
    """The request without the items that cannot be stored; `rejected` is added to."""
    items = 0
    for entry in getattr(message, signal.entries):
        for group in getattr(entry, signal.groups):
            members = getattr(group, signal.items)
            if signal.name == "traces":
                faults = [fault_of(span) for span in members]
                if any(faults):
                    rejected.update(fault for fault in faults if fault)
                    good = [s for s, fault in zip(members, faults, strict=True) if not fault]
                    kept = [type(span).FromString(span.SerializeToString()) for span in good]
                    del members[:]
                    members.extend(kept)
            items += len(members)
    message.DiscardUnknownFields()
    entries = len(getattr(message, signal.entries))
    return Checked(message.SerializeToString(), entries, items, rejected)


@cache
def _bytes_for_strings(signal: Signal) -> Any:  # noqa: ANN401 - a generated class
    """The request class of the signal with every `string` field declared as `bytes`, which is the
    same on the wire but is not refused for invalid UTF-8.
    """
    pool = descriptor_pool.DescriptorPool()
    for module in (
        common_pb2,
        resource_pb2,
        trace_pb2,
        logs_pb2,
        trace_service_pb2,
        logs_service_pb2,
    ):
        proto = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(proto)
        todo = list(proto.message_type)
        while todo:
            kind = todo.pop()
            todo.extend(kind.nested_type)
            for field in kind.field:
                if field.type == descriptor_pb2.FieldDescriptorProto.TYPE_STRING:
                    field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
        pool.Add(proto)
    name = signal.request.DESCRIPTOR.full_name
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _salvage(signal: Signal, body: bytes | bytearray) -> Checked:
    """A body that upb refuses: what is left without the items that hold invalid UTF-8."""
    try:
        loose = _bytes_for_strings(signal).FromString(body)
    except DecodeError:
        raise bad_request(f"the body is not a protobuf {signal.request.DESCRIPTOR.name}") from None
    message = signal.request()
    rejected: Counter[str] = Counter()
    for loose_entry in getattr(loose, signal.entries):
        entry = getattr(message, signal.entries).add()
        if not _copy_head(entry, loose_entry, "resource"):
            rejected[BAD_RESOURCE] += sum(
                len(getattr(group, signal.items)) for group in getattr(loose_entry, signal.groups)
            )
            del getattr(message, signal.entries)[-1]
            continue
        for loose_group in getattr(loose_entry, signal.groups):
            group = getattr(entry, signal.groups).add()
            members = getattr(loose_group, signal.items)
            if not _copy_head(group, loose_group, "scope"):
                rejected[BAD_RESOURCE] += len(members)
                del getattr(entry, signal.groups)[-1]
                continue
            for member in members:
                try:
                    getattr(group, signal.items).add().MergeFromString(member.SerializeToString())
                except DecodeError:
                    del getattr(group, signal.items)[-1]
                    rejected[BAD_TEXT] += 1
    return sift(signal, message, rejected)


def _copy_head(target: Any, loose: Any, part: str) -> bool:  # noqa: ANN401 - generated messages
    """Copy resource or scope and the schema URL; False when they hold invalid UTF-8."""
    try:
        if loose.HasField(part):
            getattr(target, part).MergeFromString(getattr(loose, part).SerializeToString())
            getattr(target, part).SetInParent()
        target.schema_url = loose.schema_url.decode()
    except (DecodeError, UnicodeDecodeError):
        return False
    return True
