"""How one process runs its parts: each is a `Service` that starts listening and stops cleanly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from stagewatch.core.clock import Clock
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store


@dataclass(frozen=True, slots=True)
class Context:
    """What every service is given: options, the store, the time and where to count.

    `health` is shared by the services of one process: each puts a callable under its name that
    returns a JSON-ready dict with at least `{"ok": bool, "says": str}`; the API shows them all.
    """

    settings: Settings
    store: Store
    clock: Clock
    registry: CollectorRegistry
    health: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)


class Service(Protocol):
    """A part that runs until it is stopped. Built by `build(context)` in its package."""

    name: str

    async def start(self) -> Mapping[str, str]:
        """Return once listening or running, with what to print (name → address)."""
        ...

    async def stop(self, grace_s: float) -> str | None:
        """Stop within `grace_s` seconds; a sentence when something was left undone."""
        ...
