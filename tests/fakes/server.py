"""A small server that keeps the sync protocol, in memory: what it accepted is there once, whatever the line did."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from pydantic import ValidationError

from app.domain.ledger import Entry, genesis, verifies
from sync import protocol
from sync.protocol import (
    EntryResult,
    FeedRecord,
    Hello,
    HelloAnswer,
    Pull,
    PullAnswer,
    Push,
    PushAnswer,
    PushedEntry,
    Sanity,
    SanityAnswer,
)

Judge = Callable[[Entry], EntryResult]


def accept(entry: Entry) -> EntryResult:
    """Find nothing wrong."""
    return EntryResult(seq=entry.seq, result=protocol.OK)


class FakeServer(httpx.BaseTransport):
    """Hold one till's ledger and a feed; `judge` says what it thinks of each entry, `routes` answers everything else.

    `max_bytes` is the longest body that it reads. `asked` lists the paths that were served, with their messages.
    """

    def __init__(self, till: str = "t1", epoch: int = 1, *, judge: Judge = accept, max_bytes: int = 1 << 30) -> None:
        self.till, self.epoch, self.judge, self.max_bytes = till, epoch, judge, max_bytes
        self.entries: list[Entry] = []
        self.results: list[EntryResult] = []
        self.tail: tuple[int, str] = (0, "")
        self.state = "OK"
        self.incarnation = 1
        self.rest_s = 0.0
        self.now_ms = 0
        self.feed: dict[tuple[str, str], FeedRecord] = {}
        self.head = 0
        self.differences: list[dict[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.routes: dict[str, Callable[[Mapping[str, Any]], httpx.Response]] = {}

    @property
    def acked(self) -> tuple[int, str]:
        """Return the end of what is held."""
        return (self.entries[-1].seq, self.entries[-1].hash.hex()) if self.entries else (0, "")

    def messages(self, path: str) -> list[Any]:
        """Return the messages that came to one path."""
        return [body for asked, body in self.asked if asked == path]

    def publish(self, kind: str, key: str, record: dict[str, Any] | None) -> None:
        """Move a record to the end of the feed."""
        self.head += 1
        self.feed[kind, key] = FeedRecord(seq=self.head, kind=kind, key=key, record=record)

    def restore(self, length: int) -> None:
        """Go back to the first `length` entries, as after a restore from a backup."""
        del self.entries[length:], self.results[length:]
        self.tail = self.acked
        self.incarnation += 1

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Serve one request."""
        content = request.read()
        path = request.url.path
        if len(content) > self.max_bytes:
            return httpx.Response(413, text="too large")
        body = json.loads(content) if content else {}
        served: dict[str, Callable[[Any], httpx.Response]] = {
            protocol.HELLO_PATH: self._hello,
            protocol.PUSH_PATH: self._push,
            protocol.PULL_PATH: self._pull,
            protocol.SANITY_PATH: self._sanity,
        } | self.routes
        self.asked.append((path, body))
        try:
            return served[path](body)
        except ValidationError as error:
            return httpx.Response(422, json={"detail": error.errors(include_url=False, include_context=False)})

    def _hello(self, body: Any) -> httpx.Response:
        hello = Hello.model_validate(body)
        if hello.epoch == self.epoch and hello.seen == self.tail and hello.last[0] >= self.tail[0]:
            self.tail = hello.last
        return _json(
            HelloAnswer.model_validate(
                {
                    "incarnation": self.incarnation,
                    "epoch": self.epoch,
                    "acked": self.acked,
                    "tail": self.tail,
                    "state": self.state,
                    "now_ms": self.now_ms,
                    "schema_accept": (1, 1),
                    "head": self.head,
                    "rest_s": self.rest_s,
                }
            )
        )

    def _push(self, body: Any) -> httpx.Response:
        push = Push.model_validate(body)
        if push.epoch != self.epoch:
            return _json(PushAnswer(acked=self.acked, error="EPOCH"))
        results: list[EntryResult] = []
        for pushed in push.entries:
            result = self._take(pushed)
            if isinstance(result, str):
                return _json(PushAnswer(acked=self.acked, results=results, error=result))
            results.append(result)
        self.tail = max(self.tail, self.acked)
        return _json(PushAnswer(acked=self.acked, results=results))

    def _take(self, pushed: PushedEntry) -> EntryResult | str:
        if pushed.seq <= len(self.entries):
            if self.entries[pushed.seq - 1].hash.hex() != pushed.hash:
                self.state = "FORK"
                return "FORK"
            first = self.results[pushed.seq - 1]
            return first if first.result != protocol.OK else EntryResult(seq=pushed.seq, result=protocol.DUPLICATE)
        before = self.entries[-1].hash if self.entries else genesis(self.till, self.epoch)
        entry = pushed.entry(self.epoch, before)
        if pushed.seq > len(self.entries) + 1 or not verifies(entry, self.till):
            return "GAP"
        self.entries.append(entry)
        self.results.append(self.judge(entry))
        return self.results[-1]

    def _pull(self, body: Any) -> httpx.Response:
        pull = Pull.model_validate(body)
        newer = sorted((r for r in self.feed.values() if r.seq > pull.cursor), key=lambda record: record.seq)
        page = newer[: pull.limit]
        after = page[-1].seq if page else pull.cursor
        head = newer[-1].seq if newer else after
        more = len(newer) > len(page)
        return _json(PullAnswer(records=page, next=after, more=more, since=pull.cursor, head=head))

    def _sanity(self, body: Any) -> httpx.Response:
        Sanity.model_validate(body)
        return _json(SanityAnswer(differences=self.differences))


def _json(answer: protocol.Answer) -> httpx.Response:
    return httpx.Response(200, json=answer.model_dump(mode="json"))
