"""`configure` and `shutdown`: where spans go, once per process."""

from __future__ import annotations

import atexit
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry import trace

from stagewatch.sdk._content import Capture, Content
from stagewatch.sdk._feedback import FeedbackSender
from stagewatch.sdk._guard import guard, guarded, log
from stagewatch.sdk._runtime import DEFAULT_APP, EXIT_DEADLINE_S, SCOPE, runtime

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from stagewatch.sdk._direct import DirectTracer
    from stagewatch.sdk._export import QueueProcessor

DEFAULT_URL = "http://localhost:8600"
_OTEL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_LENGTH_LIMITS = (
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
)


class _Installed:
    """What `configure` made, for `shutdown` to end."""

    def __init__(self) -> None:
        self.processor: QueueProcessor | None = None
        self.tracer: DirectTracer | None = None
        self.exit_registered = False


_installed = _Installed()


@guarded("configure")
def configure(
    endpoint: str | None = None,
    *,
    service: str | None = None,
    release: str | None = None,
    environment: str | None = None,
    api_key: str | None = None,
    url: str | None = None,
    app: str | None = None,
    content: Content | Capture | None = None,
    provider: TracerProvider | None = None,
) -> None:
    """Send turns to stagewatch. Never raises; call it once, early, after your own OpenTelemetry
    setup if you have one.

    With a TracerProvider in place (given, or set globally) a processor is added to it and your
    other exporters, resource and sampler stay as they are. Without one, a provider is made and
    set globally, so that spans of other instrumentations in the same trace come along.

    Args:
        endpoint: OTLP/HTTP address, e.g. "http://stagewatch:4318". Else STAGEWATCH_ENDPOINT, else
            the OTEL_EXPORTER_OTLP_* variables, else http://localhost:4318. The headers that those
            variables name are not sent to either of the first two.
        service: `service.name`; else OTEL_SERVICE_NAME. Used when we make the provider.
        release: `service.version` of the app that answers. Used when we make the provider.
        environment: `deployment.environment.name`. Used when we make the provider.
        api_key: Ingest key; else STAGEWATCH_API_KEY. Not sent to an OTEL_* endpoint, which may
            be somebody else's.
        url: Address of the API for `feedback`; else STAGEWATCH_URL, else http://localhost:8600.
        app: Name of the turn spans; else `service`.
        content: What text may leave the process: a `Content`, or "on", "hashed" or "off" for all.
        provider: The TracerProvider to add to, instead of the global one.
    """
    if _installed.processor is not None:
        log.warning("stagewatch is configured already; call shutdown() first")
        return
    key = api_key or os.environ.get("STAGEWATCH_API_KEY")
    runtime.content = _content(content)
    runtime.app_name = app or service or os.environ.get("OTEL_SERVICE_NAME") or DEFAULT_APP
    runtime.sender = _sender(url, key)
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    _install(provider, endpoint, key, _resource(service, release, environment))


def feedback_sender() -> FeedbackSender:
    """Where feedback goes; made from the environment in a process that never calls `configure`."""
    if runtime.sender is None:
        runtime.sender = _sender(None, os.environ.get("STAGEWATCH_API_KEY"))
    return runtime.sender


def _sender(url: str | None, key: str | None) -> FeedbackSender:
    if not _installed.exit_registered:
        _installed.exit_registered = True
        atexit.register(shutdown)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
    address = url or os.environ.get("STAGEWATCH_URL", "").strip() or DEFAULT_URL
    return FeedbackSender(address, key, _end_with_the_child)


def _end_with_the_child() -> bool:
    """A child of `multiprocessing` ends without the interpreter's exit functions, with its own.
    True for a daemonic one, such as a pool's worker: its parent terminates it.

    Asked for when a thread of ours starts: earlier ones are forgotten when the child begins.
    """
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return False
    util.Finalize(None, shutdown, exitpriority=0)
    return bool(process.current_process().daemon)


def _install(
    provider: TracerProvider | None, endpoint: str | None, key: str | None, named: dict[str, str]
) -> None:
    # Imported here so that an app that only names stages does not pay for the OpenTelemetry SDK.
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    from stagewatch.sdk._direct import DirectTracer, OwnProvider  # noqa: PLC0415
    from stagewatch.sdk._export import QueueProcessor  # noqa: PLC0415

    processor = QueueProcessor(lambda: _exporter(endpoint, key), at_start=_end_with_the_child)
    _installed.processor = processor
    current = provider or trace.get_tracer_provider()
    if isinstance(current, TracerProvider):
        if named:
            log.info("stagewatch: service, release and environment come from your TracerProvider")
        current.add_span_processor(processor)
        limits = getattr(current, "_span_limits", None)
        runtime.content = runtime.content.limited_to(
            getattr(limits, "max_span_attribute_length", None)
        )
        runtime.use(current.get_tracer(SCOPE))
        return
    # Our own provider does not end at exit by itself: `shutdown` does it, with a deadline.
    own = OwnProvider(processor, Resource.create(named), os.environ)
    trace.set_tracer_provider(own)
    _installed.tracer = DirectTracer(own, processor, SCOPE)
    runtime.use(_installed.tracer)


def _resource(service: str | None, release: str | None, environment: str | None) -> dict[str, str]:
    named = {
        "service.name": service,
        "service.version": release,
        "deployment.environment.name": environment,
    }
    return {name: value for name, value in named.items() if value}


def _exporter(endpoint: str | None, key: str | None) -> SpanExporter:
    # Here, on the worker's thread: it is not for the app to wait for the imports.
    from stagewatch.sdk._otlp import DEFAULT_ENDPOINT, HttpExporter, traces_address  # noqa: PLC0415

    environ = os.environ
    ours = {"authorization": f"Bearer {key}"} if key else {}
    chosen = endpoint or environ.get("STAGEWATCH_ENDPOINT", "").strip()
    if chosen:
        # Not OTEL_*_HEADERS: they are for the OTEL_* endpoint, and may hold its vendor's key.
        return HttpExporter(traces_address(chosen, environ), ours, environ)
    if any(environ.get(name, "").strip() for name in _OTEL_ENDPOINTS):
        return HttpExporter(traces_address(None, environ), None, environ)
    return HttpExporter(traces_address(DEFAULT_ENDPOINT, environ), ours or None, environ)


def _content(content: Content | Capture | None) -> Content:
    if content is None:
        word = os.environ.get("STAGEWATCH_SDK_CONTENT", "on").strip().lower()
        if word not in {"on", "hashed", "off"}:
            # Failing closed: somebody meant to restrict the content and misspelt it.
            log.warning("STAGEWATCH_SDK_CONTENT must be on, hashed or off; content is off")
            word = "off"
        chosen = Content.all(word)  # type: ignore[arg-type]  # checked above
    elif isinstance(content, str):
        chosen = Content.all(content)
    else:
        chosen = replace(content)
    for name in _LENGTH_LIMITS:
        limit = os.environ.get(name, "")
        if limit.isdigit():
            return chosen.limited_to(int(limit))
    return chosen


def _after_fork() -> None:
    guard.after_fork()
    if _installed.processor is not None:
        _installed.processor.after_fork()
    if _installed.tracer is not None:
        _installed.tracer.after_fork()
    if runtime.sender is not None:
        runtime.sender.after_fork()


@guarded("flush")
def flush(timeout_s: float = 10.0) -> bool:
    """Wait until spans and feedback queued so far were sent or given up; False on time-out."""
    until = time.monotonic() + timeout_s
    sent = True
    if _installed.processor is not None:
        sent = _installed.processor.force_flush(int(timeout_s * 1000))
    if runtime.sender is not None:
        sent = runtime.sender.flush(max(0.0, until - time.monotonic())) and sent
    return sent


@guarded("shut down")
def shutdown() -> None:
    """Send what is queued, for a few seconds at most, and stop. Runs by itself at exit."""
    processor, _installed.processor = _installed.processor, None
    _installed.tracer = None
    runtime.use(None)
    # The content settings stay: a provider of the app's may still send what later stages tell.
    runtime.app_name = DEFAULT_APP
    until = time.monotonic() + EXIT_DEADLINE_S
    if processor is not None:
        processor.shutdown()
    sender, runtime.sender = runtime.sender, None
    if sender is not None:
        # Posted by its own thread all the while: the process waits once for both.
        sender.stop(max(0.0, until - time.monotonic()))
    guard.tell_rest()
