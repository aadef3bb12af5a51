"""Declare what is sold, and the members with their punch cards."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Table, Text

from server.db.schema.conventions import Instant, metadata

product = Table(
    "product",
    metadata,
    Column("sku", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_en", Text, nullable=False, server_default=""),
    Column("price_minor", BigInteger, nullable=False),
    Column("category", Text, nullable=False, server_default=""),
    Column("brand", Text, nullable=False, server_default=""),
    Column("barcode", Text, unique=True),  # GTIN-14, digits
    Column("kind", Text, nullable=False, server_default="goods"),  # goods, service
    Column("by_weight", Boolean, nullable=False, server_default="0"),
    CheckConstraint("price_minor >= 0", name="price"),
)

member = Table(
    "member",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tier", Text, nullable=False, server_default="basic"),
    Column("home_store", Text, ForeignKey("store.id"), nullable=False),
    Column("label", Text, nullable=False, server_default=""),  # what a till may show: a masked phone, no name
)

punch_card = Table(
    "punch_card",
    metadata,
    Column("id", Text, primary_key=True),
    Column("member_id", Text, ForeignKey("member.id"), nullable=False, index=True),
    Column("service", Text, nullable=False),  # a sku
    Column("until_at", Instant),
)
