"""What all models share."""

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from holdfast.domain import InvalidValue, parse_id, parse_query_id

QUERY_ID: Final = "^q-[1-9][0-9]{0,17}$"
_NOT_BLANK: Final = r"[^\s\x1c-\x1f\x85\ufeff]"
_TIME: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"


class Given(BaseModel):
    """The body of a request: strict, and nothing in it that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """The body of an answer. All fields are always there."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


def _id(what: str) -> Any:
    def parse(value: Any) -> Any:
        return parse_id(value, what) if isinstance(value, str) else value

    return BeforeValidator(parse)


def _not_blank(value: str) -> str:
    if not value.strip().strip("\ufeff"):
        raise InvalidValue("a text that is needed is blank")
    return value


def _whole(value: Any) -> Any:
    """1.0 is a whole number: JSON does not tell it from 1."""
    return int(value) if type(value) is float and value.is_integer() else value


def absent(description: str | None = None) -> Any:
    """The default of a field that may be left out, but is not null. Whether it is there tells `model_fields_set`."""
    return Field(default_factory=lambda: None, description=description)


def _query(value: str) -> str:
    parse_query_id(value)
    return value


TemplateId = Annotated[UUID, _id("template")]
SessionId = Annotated[UUID, _id("session")]
ExecutionId = Annotated[UUID, _id("execution")]
CapabilityId = Annotated[UUID, _id("capability")]
StartupId = Annotated[UUID, _id("startup file")]
QueryId = Annotated[str, AfterValidator(_query), WithJsonSchema({"type": "string", "pattern": QUERY_ID})]

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time", "pattern": _TIME})]

Text = Annotated[str, AfterValidator(_not_blank), WithJsonSchema({"type": "string", "minLength": 1, "pattern": _NOT_BLANK})]
"""A text that is not blank."""

Name = Annotated[
    str,
    Field(max_length=200),
    AfterValidator(_not_blank),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "pattern": _NOT_BLANK}),
]

WHOLE: Final = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=0, le=(1 << 53) - 1), WHOLE]
Number = Annotated[int, Field(ge=1, le=(1 << 53) - 1), WHOLE]

Object = dict[str, Any]

Ok = Literal["ok"]


class Problem(Told):
    """What went wrong."""

    code: str = Field(description="Stable: programs may rely on it.", examples=["SESSION_NOT_FOUND"])
    message: str = Field(description="For people.", examples=["There is no such session."])
    details: Object = Field(default={}, description="What a program may want to know besides.")


class Error(Told):
    """The body of every answer that is an error."""

    error: Problem
