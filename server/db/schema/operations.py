"""Declare what runs the server: first answers, leases of its jobs, and messages to be sent."""

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from server.db.schema.conventions import Instant, metadata, partial

request = Table(
    "request",
    metadata,
    Column("id", Text, primary_key=True),  # <what>:<id of the caller>
    Column("digest", LargeBinary, nullable=False),  # of the content: the same id with other content is refused
    Column("answer", JSON, nullable=False),  # first answer, refusals included
    Column("created_at", Instant, nullable=False),
    Column("reservation", Text),  # token of the reservation in Redis that it landed; NULL = came another way
)

job_lease = Table(
    "job_lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),  # an id of the process; empty = given back
    Column("fence", BigInteger, nullable=False),  # counts the owners: who has not the newest writes nothing
    Column("beats", BigInteger, nullable=False),  # counts the signs of life; who sees none for long may take over
    Column("until_at", Instant, nullable=False),  # for people: nothing is decided by it
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),  # made from what it is about, so a repeat is the same message
    Column("body", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("due_at", Instant, nullable=False),  # not to be sent before
    Column("next_at", Instant, nullable=False),  # the next try; due_at, until one has failed
    Column("attempts", Integer, nullable=False, server_default="0"),  # tries that failed
    Column("error", Text, nullable=False, server_default=""),  # why the last one failed
    Column("sent_at", Instant),
    Column("parked_at", Instant),  # given up; a person sees it as a finding
    UniqueConstraint("topic", "key"),
    Index("ix_outbox_waiting", "topic", "next_at", **partial("sent_at IS NULL AND parked_at IS NULL")),
)
