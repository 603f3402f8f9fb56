"""The base of every typed settings class, and how a wrong value is reported: by its key, in one line."""

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from equiset.errors import EquisetError


class Settings(BaseModel):
    """Settings that come from `config.yaml`. A key that no field names is an error; values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


_POWER_OF_TEN = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_KINDS = {"int", "float", "str", "bool", "none"}

AnySettings = TypeVar("AnySettings", bound=Settings)


def validate(kind: type[AnySettings], values: Any, *where: str) -> AnySettings:
    """Return typed settings, or raise an `EquisetError` that names the wrong keys below `where`."""
    try:
        # As JSON, whose arrays may be tuples. Nothing is converted: `true` or 2.0 is no number of epochs.
        return kind.model_validate_json(json.dumps(_with_numbers(values), default=str), strict=True)
    except ValidationError as error:
        faults = list(dict.fromkeys(_explain(fault, kind, where) for fault in error.errors()))
    except (TypeError, ValueError) as error:  # keys that are no text, or a value that holds itself
        faults = [f"config key '{'.'.join(where) or '(top)'}' cannot be read: {error}"]
    # A wrong default is wrong in every variant: the first few say it all.
    more = [f"... and {len(faults) - 3} more"] if len(faults) > 3 else []
    raise EquisetError("\n".join(faults[:3] + more))


def _with_numbers(values: Any) -> Any:
    """Return the values with `1e-3` as a number, which YAML 1.1 takes for text unless it is written 1.0e-3."""
    if isinstance(values, dict):
        return {key: _with_numbers(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_with_numbers(value) for value in values]
    return float(values) if isinstance(values, str) and _POWER_OF_TEN.fullmatch(values) else values


def _explain(fault: dict[str, Any], kind: type[Settings], where: tuple[str, ...]) -> str:
    # Where a value may be of several kinds, pydantic adds the kind to the key.
    parts = [str(part) for part in fault["loc"] if not (isinstance(part, str) and ("[" in part or part in _KINDS))]
    key = ".".join([*where, *parts])
    match fault["type"]:
        case "extra_forbidden":
            close = get_close_matches(str(fault["loc"][-1]), set(_field_names(kind.model_json_schema())), n=1)
            return f"config key '{key}' is unknown" + (f"; did you mean '{close[0]}'?" if close else "")
        case "missing":
            return f"config key '{key}' is missing"
        case "value_error":  # from our own validators, which say everything themselves
            return f"config key '{key}': {fault['msg'].removeprefix('Value error, ')}"
        case _:
            return f"config key '{key}': {fault['msg'][0].lower()}{fault['msg'][1:]}, got {fault['input']!r:.80}"


def _field_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _field_names(part)
