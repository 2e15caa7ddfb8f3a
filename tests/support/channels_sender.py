"""One pass over the channels of a data folder, in a process that a test can kill.

    python -m tests.support.channels_sender FOLDER SECONDS [URL]

With URL, an alert and a channel to it are stored first. SECONDS moves the clock on. Prints the
log of messages as JSON lines.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from tests.support.channels_alerts import AT, alert, channel

from stagewatch.core.clock import ManualClock
from stagewatch.core.codec import to_text
from stagewatch.core.settings import load_settings
from stagewatch.core.store import migrate, open_store
from stagewatch.core.store.alerts import put_alert
from stagewatch.core.store.deliveries import recent_deliveries
from stagewatch.scorer.channels.addresses import parse_networks
from stagewatch.scorer.channels.channel import put_channel
from stagewatch.scorer.channels.deliver import Office, notify_pass


def main() -> None:
    folder, seconds = sys.argv[1], float(sys.argv[2])
    store = open_store(load_settings({"STAGEWATCH_DATA_DIR": folder}))
    migrate(store)
    clock = ManualClock(AT + timedelta(seconds=seconds))
    if len(sys.argv) > 3:
        put_channel(store, "p", channel(url=sys.argv[3], timeout_s=60), at=AT)
        put_alert(store, "p", alert(), at=AT)
    notify_pass(Office(store, clock, {}, set(), parse_networks("127.0.0.0/8")))
    for item in recent_deliveries(store, "p"):
        print(to_text(item), flush=True)
    store.close()


if __name__ == "__main__":
    main()
