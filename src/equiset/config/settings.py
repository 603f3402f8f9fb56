"""The base of every typed settings class, and how a wrong value is reported: by its key, in one line."""

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_origin

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
            return f"config key '{key}' is unknown{_hint(kind, parts, where)}"
        case "missing":
            return f"config key '{key}' is missing"
        case "value_error":  # from our own validators, which say everything themselves
            return f"config key '{key}': {fault['msg'].removeprefix('Value error, ')}"
        case _:
            return f"config key '{key}': {fault['msg'][0].lower()}{fault['msg'][1:]}, got {fault['input']!r:.80}"


def _hint(kind: type[Settings], wrong: list[str], where: tuple[str, ...]) -> str:
    """Return a question that names a similar key: one beside the wrong one, or else one of the same name elsewhere."""
    *level, name = wrong
    paths = [_filled(path, level) for path in _paths(kind)]
    beside = {path[-1]: path for path in paths if path[:-1] == level}
    close = get_close_matches(name, beside, n=1)
    found = [beside[close[0]]] if close else [path for path in paths if path[-1] == name]
    return (
        f"; did you mean '{'.'.join([*where, *max(found, key=lambda path: _common(path, level))])}'?" if found else ""
    )


def _paths(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Yield the keys of all settings, each as the path that leads to it, with `*` for names that users choose."""
    for name, field in kind.model_fields.items():
        yield [*above, name]
        chosen = ("*",) if get_origin(field.annotation) is dict else ()
        for inner in _settings_in(field.annotation):
            yield from _paths(inner, (*above, name, *chosen))


def _settings_in(annotation: Any) -> list[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [found for part in get_args(annotation) for found in _settings_in(part)]


def _filled(path: list[str], names: list[str]) -> list[str]:
    """Return a path with the names that were chosen, where it has a `*`."""
    same = all(one in (other, "*") for one, other in zip(path, names, strict=False))
    return [names[at] if same and one == "*" and at < len(names) else one for at, one in enumerate(path)]


def _common(path: list[str], other: list[str]) -> int:
    return sum(one == two for one, two in zip(path, other, strict=False))
