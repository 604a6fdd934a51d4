"""Values that are written down: as JSON and arrays, which say nothing but what they are.

What is read back is data: numbers, text, arrays, and values of classes of this library whose fields are such (data
classes and named tuples). No other class is ever made, and no function called that a file names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlatch.errors import DataError

__all__ = ["fingerprint", "read_back", "written"]

Arrays = dict[str, NDArray[Any]]

_OURS = "unlatch."


def written(value: Any) -> tuple[Any, Arrays]:
    """A value as JSON, and the arrays that it refers to by their names."""
    arrays: Arrays = {}
    return _written(value, arrays), arrays


def _written(value: Any, arrays: Arrays) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if isinstance(value, float) and not isinstance(value, np.generic):
        return {"float": value.hex()}
    if isinstance(value, np.ndarray | np.generic):
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "number": name}
    if isinstance(value, list):
        return [_written(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {"pairs": [[_written(k, arrays), _written(v, arrays)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [_written(part, arrays) for part in (value.start, value.stop, value.step)]}
    kind = type(value)
    if kind is tuple:
        return {"tuple": [_written(item, arrays) for item in value]}
    if _is_plain_class(kind):
        fields = {name: _written(getattr(value, name), arrays) for name in _fields(kind)}
        return {"class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not written down")


def read_back(content: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What `written` was given."""
    if content is None or isinstance(content, bool | str | int):
        return content
    if isinstance(content, list):
        return [read_back(item, arrays) for item in content]
    match content:
        case {"float": str(digits)}:
            return float.fromhex(digits)
        case {"array": str(name)}:
            return arrays[name]
        case {"number": str(name)}:
            return arrays[name][()]
        case {"tuple": list(items)}:
            return tuple(read_back(item, arrays) for item in items)
        case {"slice": list(parts)}:
            return slice(*(read_back(part, arrays) for part in parts))
        case {"pairs": list(pairs)}:
            return {read_back(key, arrays): read_back(value, arrays) for key, value in pairs}
        case {"class": str(name), "fields": dict(fields)}:
            return _class(name)(**{key: read_back(value, arrays) for key, value in fields.items()})
    raise DataError(f"not what a value is written as: {content!r:.80}")


def _class(name: str) -> Any:
    """A class of ours whose values are their fields."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module) if module.startswith(_OURS) else None
    found = getattr(found, path, None)
    if not isinstance(found, type) or found.__module__ != module or not _is_plain_class(found):
        raise DataError(f"{name:.80} is no class of values")
    return found


def _is_plain_class(kind: type) -> bool:
    if not kind.__module__.startswith(_OURS):
        return False
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _fields(kind: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return tuple(kind._fields)


def fingerprint(value: Any) -> str:
    """Changes with the value; equal values have equal ones."""
    content, arrays = written(value)
    found = hashlib.sha256(json.dumps(content, ensure_ascii=True).encode())
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
