"""Messages to real receivers: signed, pinned, retried, logged; and services through apprise."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels_alerts import AT, SECRET, alert, channel
from tests.support.channels_receiver import Receiver, receiving
from tests.support.channels_smtp import smtp_server
from tests.support.channels_tls import self_signed
from tests.support.server import until

from stagewatch.core.clock import ManualClock, rfc3339
from stagewatch.core.errors import ConflictError, InvalidInputError
from stagewatch.core.store import Store
from stagewatch.core.store.alerts import get_alert, mark_alert, put_alert
from stagewatch.core.store.deliveries import Delivery, recent_deliveries
from stagewatch.scorer.channels.addresses import parse_networks
from stagewatch.scorer.channels.channel import (
    Channel,
    drop_channel,
    list_channels,
    put_channel,
    save_channel,
)
from stagewatch.scorer.channels.deliver import Office, notify_pass, send_test
from stagewatch.scorer.channels.post import Wire, post
from stagewatch.scorer.channels.services import send_service
from stagewatch.scorer.channels.sign import secret_bytes
from stagewatch.scorer.plans.exchange import RowError, ask_http

LOOPBACK = parse_networks("127.0.0.0/8")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.fixture
def office(store: Store, clock: ManualClock) -> Office:
    return Office(store, clock, {}, set(), LOOPBACK, "https://watch.example")


class Desk:
    """A project with one channel and one alert."""

    def __init__(self, office: Office, project: str, receiver: Receiver) -> None:
        self.office, self.project, self.receiver = office, project, receiver

    def channel(self, path: str, **fields: Any) -> None:
        made = channel(url=self.receiver.url + path, **fields)
        put_channel(self.office.store, self.project, made, at=self.office.clock.now())

    def alert(self, **fields: Any) -> None:
        body = alert(f"a-{self.project}", project=self.project, **fields)
        put_alert(self.office.store, self.project, body, at=self.office.clock.now())

    def notify(self) -> list[Delivery]:
        notify_pass(self.office)
        return recent_deliveries(self.office.store, self.project)[::-1]

    def got(self) -> list[dict[str, Any]]:
        """What the receiver got of this project."""
        return [item for item in self.receiver.got if self.project in item["body"]]


@pytest.fixture
def desk(office: Office, project: str, receiver: Receiver) -> Desk:
    return Desk(office, project, receiver)


def test_a_message_is_signed_and_sent_once(desk: Desk) -> None:
    desk.channel("/ok?x=1")
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.status, line.said, line.attempt) == ("sent", 200, "thank you", 1)
    assert desk.notify() == [line]
    (got,) = desk.got()
    headers = got["headers"]
    assert got["path"] == "/ok?x=1"
    assert headers["webhook-id"] == line.delivery_id
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{got['body']}"
    digest = hmac.new(secret_bytes(SECRET), signed.encode(), hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    told = json.loads(got["body"])
    assert told["type"] == "alert.opened"
    assert told["data"]["links"][0].startswith("https://watch.example/turns/t-1?project=")


def test_an_error_is_tried_again_with_the_same_id_until_it_is_taken(
    desk: Desk, clock: ManualClock
) -> None:
    desk.channel("/flaky")
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.status) == ("retry", 500)
    assert desk.notify() == [line]
    clock.advance(6)
    assert desk.notify()[0].state == "retry"
    clock.advance(31)
    (line,) = desk.notify()
    assert (line.state, line.status, line.attempt) == ("sent", 200, 3)
    assert {item["headers"]["webhook-id"] for item in desk.got()} == {line.delivery_id}
    stamps = [int(item["headers"]["webhook-timestamp"]) for item in desk.got()]
    assert stamps == sorted(set(stamps))


def test_a_refusal_is_not_tried_again_and_its_words_are_cleaned(desk: Desk) -> None:
    desk.channel("/refuse")
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.status, line.said) == ("failed", 400, "I do not want this")


def test_a_peer_that_is_busy_says_for_how_long(desk: Desk, clock: ManualClock) -> None:
    desk.channel("/busy")
    desk.alert()
    (line,) = desk.notify()
    assert line.next_at is not None
    assert line.next_at - line.at == timedelta(seconds=77)


@pytest.mark.parametrize("path", ["/slow", "/drip"])
def test_a_peer_that_takes_too_long_is_cut_off(desk: Desk, path: str) -> None:
    desk.channel(path, timeout_s=0.5)
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.status) == ("retry", 0)
    assert line.said == "no answer in 0.5 s"


def answering(text: bytes) -> Iterator[str]:
    """The address of a peer that answers its one request with `text`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            made, _ = listener.accept()
            with made:
                made.recv(65536)
                made.sendall(text)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        thread.join(10)


def test_an_upgrade_is_no_success() -> None:
    for url in answering(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"):
        outcome = post(url, {}, b"{}", Wire(LOOPBACK))
        assert (outcome.ok, outcome.status) == (False, 101)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("Mon, 30 Nov 2026 12:02:00 GMT", 120.0), ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
     ("77", 77.0), ("soon", None), ("9" * 400, float("inf"))],
)  # fmt: skip
def test_a_peer_may_say_when_in_seconds_or_as_a_date(text: str, seconds: float | None) -> None:
    head = f"HTTP/1.1 503 Busy\r\nretry-after: {text}\r\ncontent-length: 0\r\n\r\n"
    for url in answering(head.encode()):
        outcome = post(url, {}, b"{}", Wire(LOOPBACK, clock=ManualClock(AT)))
        assert (outcome.again, outcome.wait_s) == (True, seconds)


@pytest.mark.parametrize(
    "to", ["/ok", "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:9/x"]
)
def test_redirects_are_never_followed(desk: Desk, to: str) -> None:
    target = desk.receiver.url + to if to == "/ok" else to
    desk.channel(f"/redirect?to={target}")
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.status) == ("failed", 307)
    assert "never followed" in line.said
    assert [item["path"].partition("?")[0] for item in desk.got()] == ["/redirect"]


def test_private_addresses_are_refused_unless_a_setting_names_them(desk: Desk) -> None:
    desk.office = replace(desk.office, networks=())
    desk.channel("/ok")
    desk.alert()
    (line,) = desk.notify()
    assert line.state == "failed"
    assert "STAGEWATCH_ALERT_NETWORKS" in line.said
    assert desk.got() == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]",
             "localhost", "169.254.169.254", "[fe80::1]", "0.0.0.0"],
)  # fmt: skip
def test_no_way_of_writing_a_private_address_gets_through(host: str, receiver: Receiver) -> None:
    before = len(receiver.got)
    outcome = post(f"https://{host}:{receiver.port}/ok", {}, b"", Wire())
    assert not outcome.ok
    assert not outcome.again
    assert "not a public address" in outcome.said
    assert len(receiver.got) == before


def test_a_name_that_changes_its_address_is_resolved_once(receiver: Receiver) -> None:
    """The first answer is allowed, every later one is the metadata address."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    def resolver(host: str, _port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    wire = Wire(LOOPBACK, resolver)
    outcome = post(f"http://hooks.test:{receiver.port}/ok", {}, b"{}", wire)
    assert (outcome.ok, asked) == (True, ["hooks.test"])
    host = f"hooks.test:{receiver.port}"
    # The receiver is shared, and tells what it got a moment later.
    until("the request", lambda: any(got["headers"]["host"] == host for got in receiver.got))
    outcome = post(f"http://hooks.test:{receiver.port}/ok", {}, b"{}", wire)
    assert "169.254.169.254" in outcome.said


def test_a_row_goes_to_the_address_its_name_has(receiver: Receiver) -> None:
    url = f"http://app.test:{receiver.port}/row"
    with pytest.raises(RowError, match="not JSON"):
        ask_http(
            url, method="POST", headers={}, body=b"{}", timeout_s=30,
            resolver=lambda _h, _p: ["127.0.0.1"],
        )  # fmt: skip
    host = f"app.test:{receiver.port}"
    until("the request", lambda: any(got["headers"]["host"] == host for got in receiver.got))


def test_plain_http_does_not_go_to_public_addresses() -> None:
    wire = Wire(LOOPBACK, lambda _h, _p: ["8.8.8.8"])
    outcome = post("http://hooks.test/ok", {}, b"{}", wire)
    assert (outcome.ok, outcome.again) == (False, False)
    assert "use https" in outcome.said


def test_a_name_without_an_address_is_tried_again() -> None:
    def resolver(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "not now")

    outcome = post("https://hooks.test/x", {}, b"", Wire(LOOPBACK, resolver))
    assert (outcome.ok, outcome.again, outcome.said) == (
        False,
        True,
        "hooks.test has no address now",
    )


def test_a_certificate_of_nobody_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path, "hooks.test"))
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        raw, _ = listener.accept()
        with raw:
            try:
                context.wrap_socket(raw, server_side=True).close()
            except (ssl.SSLError, OSError):
                return

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    wire = Wire(LOOPBACK, lambda _h, _p: ["127.0.0.1"])
    outcome = post(f"https://hooks.test:{port}/x", {}, b"", wire)
    thread.join(10)
    listener.close()
    assert (outcome.ok, outcome.again) == (False, False)
    assert outcome.said.startswith("bad certificate")


def test_a_peer_that_drips_under_tls_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = self_signed(tmp_path, "hooks.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))
    cut = threading.Event()

    def serve() -> None:
        raw, _ = listener.accept()
        try:
            with context.wrap_socket(raw, server_side=True) as made:
                made.sendall(b"HTTP/1.1 200 OK\r\nx-drip: ")
                # Without a cut it would drip on until the limit of headers.
                for _ in range(600):
                    made.sendall(b"a")
                    cut.wait(0.1)
        except OSError:
            cut.set()

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    wire = Wire(LOOPBACK, lambda _h, _p: ["127.0.0.1"], timeout_s=1.0)
    outcome = post(f"https://hooks.test:{port}/x", {}, b"", wire)
    assert (outcome.again, outcome.said) == (True, "no answer in 1 s")
    thread.join(30)
    listener.close()
    assert cut.is_set()


def test_nobody_listening_is_tried_again(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = post(f"http://127.0.0.1:{port}/x", {}, b"", Wire(LOOPBACK))
    assert (outcome.ok, outcome.again, outcome.said) == (
        False, True, "connection failed: Connection refused",
    )  # fmt: skip


def test_acknowledging_and_closing_are_told_and_stay(desk: Desk, clock: ManualClock) -> None:
    desk.channel("/ok")
    desk.alert()
    desk.notify()
    clock.advance(60)
    mark_alert(
        desk.office.store, desk.project, f"a-{desk.project}", "acked", by="Ada", at=clock.now()
    )
    desk.notify()
    clock.advance(60)
    # The scorer writes new numbers: what Ada did stays.
    desk.alert(to=0.5)
    found = get_alert(desk.office.store, desk.project, f"a-{desk.project}", clock.now())
    assert found is not None
    assert (found["state"], found["mark"]["by"], found["to"]) == ("acked", "Ada", 0.5)
    desk.alert(closed_at=rfc3339(clock.now()))
    lines = desk.notify()
    assert [line.event for line in lines] == ["opened", "acked", "closed"]
    assert [json.loads(item["body"])["type"] for item in desk.got()] == [
        "alert.opened", "alert.acked", "alert.closed",
    ]  # fmt: skip
    assert "Acknowledged by Ada" in desk.got()[1]["body"]


def test_an_alert_that_closed_while_its_opening_was_retried_is_told_in_order(
    desk: Desk, clock: ManualClock
) -> None:
    desk.channel("/flaky")
    desk.alert()
    assert desk.notify()[0].state == "retry"
    clock.advance(1)
    desk.alert(state="closed", closed_at=rfc3339(clock.now()))
    for _ in range(5):
        clock.advance(40)
        desk.notify()
    assert [json.loads(item["body"])["type"] for item in desk.got()] == [
        "alert.opened", "alert.opened", "alert.opened",
        "alert.closed", "alert.closed", "alert.closed",
    ]  # fmt: skip
    assert [line.state for line in desk.notify()] == ["sent", "sent"]


def test_a_channel_that_cannot_be_does_not_silence_another_project(
    desk: Desk, project: str
) -> None:
    """As one stored before such addresses were refused."""
    store, at = desk.office.store, desk.office.clock.now()
    odd = {
        "dots": "https://hooks..example.com/x", "long": f"https://{'a' * 64}.example.com/x",
        "none": "https:///x", "half": "https://[::1/x",
    }  # fmt: skip
    first = f"a-{project}"
    for name, url in odd.items():
        base = channel(name).model_dump()
        put_channel(store, first, Channel(**{**base, "url": url}), at=at)
    put_alert(store, first, alert("x", project=first), at=at)
    # An alert that no message can be made of, beside one that is well.
    broken = {k: v for k, v in alert("y", project=project).items() if k != "sentence"}
    put_alert(store, project, broken, at=at)
    desk.channel("/ok")
    desk.alert()
    assert [line.state for line in desk.notify()] == ["sent"]
    lines = recent_deliveries(store, first)
    assert {line.channel: line.state for line in lines} == dict.fromkeys(odd, "failed")
    assert all("url: " in line.said for line in lines)


def test_whatever_a_resolver_raises_is_one_failed_message(desk: Desk) -> None:
    def resolver(_host: str, _port: int) -> list[str]:
        raise RuntimeError("out of order")

    desk.office = replace(desk.office, resolver=resolver)
    desk.channel("/ok")
    desk.alert()
    (line,) = desk.notify()
    assert (line.state, line.said) == ("failed", "cannot be sent: RuntimeError")


def test_a_channel_made_anew_gets_nothing_of_the_old_one(desk: Desk, clock: ManualClock) -> None:
    def save(path: str) -> None:
        sent = {"name": "ops", "url": desk.receiver.url + path}
        save_channel(
            desk.office.store, desk.project, sent, by="x", now=clock.now(), random=b"r" * 32
        )

    save("/flaky")
    desk.alert()
    assert desk.notify()[0].state == "retry"
    clock.advance(1)
    drop_channel(desk.office.store, desk.project, "ops", at=clock.now())
    clock.advance(1)
    save("/ok")
    clock.advance(10)
    (line,) = desk.notify()
    assert (line.state, line.said) == ("failed", "the channel was deleted")
    assert [item["path"] for item in desk.got()] == ["/flaky"]


def test_of_many_first_saves_at_once_one_makes_the_secret(store: Store, project: str) -> None:
    gate = threading.Barrier(8)
    secrets: list[str] = []
    refused: list[str] = []

    def save(number: int) -> None:
        gate.wait(30)
        try:
            _, made = save_channel(
                store, project, {"name": "ops", "url": "https://hooks.example/x"},
                by=f"p{number}", now=AT, random=bytes([number]) * 32,
            )  # fmt: skip
        except ConflictError as error:
            refused.append(str(error))
        else:
            secrets.append(made)

    threads = [threading.Thread(target=save, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (stored,) = list_channels(store, project)
    assert [made for made in secrets if made] == [stored.secret]
    assert len(secrets) + len(refused) == 8


@pytest.mark.parametrize("field", ["since", "made", "by"])
def test_what_the_server_writes_is_not_taken_from_callers(
    store: Store, project: str, field: str
) -> None:
    sent = {"name": "ops", "url": "https://hooks.example/x", field: rfc3339(AT)}
    with pytest.raises(InvalidInputError, match=field):
        save_channel(store, project, sent, by="x", now=AT, random=b"r" * 32)


def test_a_deleted_channel_gives_its_messages_up(desk: Desk, clock: ManualClock) -> None:
    desk.channel("/flaky")
    desk.alert()
    assert desk.notify()[0].state == "retry"
    drop_channel(desk.office.store, desk.project, "ops", at=clock.now() + timedelta(seconds=1))
    desk.channel("/ok", name="other")
    clock.advance(10)
    found = {line.channel: line for line in desk.notify()}
    assert (found["ops"].state, found["ops"].said) == ("failed", "the channel was deleted")
    assert found["other"].state == "sent"


def test_a_slow_channel_does_not_hold_up_another(desk: Desk) -> None:
    desk.channel("/slow", name="slow", timeout_s=1.0)
    desk.channel("/ok", name="quick")
    desk.alert()
    found = {line.channel: line for line in desk.notify()}
    assert found["quick"].state == "sent"
    assert found["slow"].state == "retry"


def test_a_test_message_says_what_the_peer_said(desk: Desk) -> None:
    made = channel(url=desk.receiver.url + "/refuse")
    ended = send_test(desk.office, desk.project, made)
    assert (ended.state, ended.status, ended.said) == ("failed", 400, "I do not want this")
    (got,) = desk.got()
    assert json.loads(got["body"])["type"] == "alert.test"
    assert "This is a test" in got["body"]


@pytest.mark.parametrize(("scheme", "path"), [("mmost", "token123"), ("ntfy", "topic-1")])
def test_apprise_reaches_a_service_on_an_allowed_network(
    receiver: Receiver, scheme: str, path: str
) -> None:
    before = len(receiver.got)
    outcome = send_service(
        f"{scheme}://127.0.0.1:{receiver.port}/{path}", "A title",
        "What happened near release <!channel> @everyone [x](http://y)",
        allowed=LOOPBACK, timeout_s=10,
    )  # fmt: skip
    assert outcome.ok, outcome
    body = receiver.wait(before + 1)[-1]["body"]
    assert "What happened near release" in body
    assert not any(sign in body for sign in ("<!channel>", "@everyone", "[x]"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254"])
def test_apprise_cannot_reach_a_private_address(receiver: Receiver, host: str) -> None:
    before = len(receiver.got)
    outcome = send_service(
        f"ntfy://{host}:{receiver.port}/topic", "t", "x", allowed=(), timeout_s=5
    )
    assert not outcome.ok
    assert "not a public address" in outcome.said
    assert len(receiver.got) == before


def test_apprise_does_not_follow_a_redirect(receiver: Receiver) -> None:
    before = len(receiver.got)
    outcome = send_service(
        f"mmost://127.0.0.1:{receiver.port}/moved/token123", "t", "x",
        allowed=LOOPBACK, timeout_s=5,
    )  # fmt: skip
    assert not outcome.ok
    receiver.wait(before + 1)
    assert [item["path"] for item in receiver.got[before:]] == ["/moved/hooks/token123"]


UNGUARDED = """
import ssl, socket, sys
from stagewatch.scorer.channels.service_process import guard_sockets
refused = guard_sockets(())
context = ssl.create_default_context()
made = context.wrap_socket(socket.socket(), server_hostname="x")
tries = (
    lambda: made.connect(("127.0.0.1", 9)),
    lambda: socket.create_connection(("localhost", 9)),
    lambda: socket.socket().connect_ex(("169.254.169.254", 80)),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"),
)
for attempt in tries:
    try:
        attempt()
    except PermissionError:
        print("refused")
    except OSError as error:
        print(type(error).__name__)
"""


def test_no_kind_of_socket_gets_by_the_guard() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNGUARDED], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split() == ["refused"] * 5, ran.stderr


def test_mail_goes_through_a_real_smtp_exchange() -> None:
    with smtp_server() as server:
        outcome = send_service(
            f"mailto://127.0.0.1:{server.port}?from=watch@example.org&to=ops@example.org&mode=insecure",
            "Alert: ranking in p", "first relevant passage fell",
            allowed=LOOPBACK, timeout_s=10,
        )  # fmt: skip
        assert outcome.ok, outcome
        assert "rcpt TO:<ops@example.org>" in server.lines
        assert any("Alert: ranking in p" in line for line in server.lines)
