"""Declare the values that requests are made of, each bounded."""

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, Strict

from app.domain.instants import in_utc
from server.services.names import ID_CHAR, ID_MAX_CHARS, NO_BLANK, PERSON_MAX_CHARS, REASON_MAX_CHARS

Id = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS, pattern=f"^{ID_CHAR}+$")]
"""An id that the caller chose."""
Name = Annotated[str, Field(max_length=200)]
Amount = Annotated[str, Field(min_length=1, max_length=24)]
"""Money as text in the chain's currency; read by `Currency.parse`, which refuses what is not exact."""
Reason = Annotated[str, Field(min_length=1, max_length=REASON_MAX_CHARS, pattern=NO_BLANK)]
Person = Annotated[str, Field(min_length=1, max_length=PERSON_MAX_CHARS, pattern=NO_BLANK, description="A name")]

Moment = Annotated[AwareDatetime, AfterValidator(in_utc)]
Flag = Annotated[bool, Strict()]
"""true or false: neither 1 nor "yes" is one."""


class Body(BaseModel):
    """Refuse fields that this version does not know: a typo is not a new feature."""

    model_config = ConfigDict(extra="forbid", frozen=True)
