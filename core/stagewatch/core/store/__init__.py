"""The store: ClickHouse, embedded (chDB) or a server, behind one small class."""

from stagewatch.core.store.client import Store, open_store, query
from stagewatch.core.store.migrate import migrate

__all__ = ["Store", "migrate", "open_store", "query"]
