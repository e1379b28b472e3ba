"""The loop of a driver in Python: a call in JSON on stdin, its answer in JSON on stdout.

An answer is `{"result": ...}`, `{"error": {"code": Kafka's number or null, "text": ...}}`, or `{"lacks": why}` where
the client has no API for the call.
"""

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Calls = Mapping[str, Callable[..., Any]]
CodeOf = Callable[[Exception], int | None]
NO_API = "it has no API for it"


class Lacks(Exception):  # noqa: N818 - an answer, not an error
    """The client has no API for a call, or not with these arguments."""


def answer(calls: Calls, line: str, code_of: CodeOf) -> str:
    """Return the answer to a call, as a line."""
    request = json.loads(line)
    call = calls.get(request.pop("call"))
    try:
        if call is None:
            raise Lacks(NO_API)
        return json.dumps({"result": call(**request)})
    except Lacks as reason:
        return json.dumps({"lacks": str(reason)})
    except Exception as error:
        traceback.print_exc()
        return json.dumps({"error": {"code": code_of(error), "text": f"{type(error).__name__}: {error}"}})


def serve(calls: Calls, code_of: CodeOf) -> None:
    """Answer calls until stdin ends."""
    for line in sys.stdin:
        print(answer(calls, line, code_of), flush=True)


def chosen(table: Mapping[str, Any], name: str, what: str) -> Any:
    """Return the value of a name. Lacks if the client does not have it."""
    if name not in table:
        raise Lacks(f"it has no {what} `{name}`")
    return table[name]


def raw(text: str | None) -> bytes | None:
    """Return a key or value as bytes."""
    return None if text is None else text.encode()


def plain(data: bytes | None) -> str | None:
    """Return a key or value for JSON."""
    return None if data is None else bytes(data).decode()
