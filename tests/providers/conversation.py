"""A prompt in a provider-independent form, and the scripted model that answers it.

The model decides by the content of the prompt alone, so any number of conversations can use one server, and a
compacted conversation goes on. The newest user message contains the directives:

    work 40             call the tool with a `step` argument 40 times, one call per turn
    work 40 by 3        three parallel calls per turn
    transfer NAME       first call the tool `transfer_to_NAME`
    ask TOOL 3          first call TOOL with `input="work 3"`

A tool result must contain `step K/N`. The model continues after the highest K of the newest results. Its final answer
repeats every `SECRET-…` of the prompt, so a test sees foreign content in the answer too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

SECRET = re.compile(r"SECRET-[A-Za-z0-9]+")
_STEP = re.compile(r"step (\d+)/(\d+)")
_WORK = re.compile(r"work (\d+)(?: by (\d+))?")
_TRANSFER = re.compile(r"transfer (\w+)")
_ASK = re.compile(r"ask (\w+) (\d+)")
_OUTPUT_TOOL = "final_result"


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any]

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Entry:
    """One message of a prompt, or one tool result."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    call_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """A request as the model sees it."""

    entries: list[Entry]
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """JSON schemas of the arguments by tool name."""
    output_schema: dict[str, Any] | None = None
    must_call: bool = False
    """True if the request allows no plain text answer."""

    @property
    def text(self) -> str:
        return "\n".join(entry.text for entry in self.entries)

    @property
    def secrets(self) -> list[str]:
        return sorted(set(SECRET.findall(self.text)))


@dataclass(frozen=True)
class Turn:
    """The response of the model: a text, tool calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()


Model = Callable[[Prompt], Turn]


def worker(prompt: Prompt) -> Turn:
    """Follow the directives of the newest user message."""
    results = _newest_results(prompt)
    steps = [(int(match[1]), int(match[2])) for entry in results if (match := _STEP.search(entry.text))]
    if steps:
        last, total = max(steps)
        return _work(prompt, last + 1, total, width=len(steps)) if last < total else _answer(prompt)
    order = next((entry.text for entry in reversed(prompt.entries) if entry.role == "user"), "")
    newest_call = prompt.entries[-len(results) - 1].call_names if results else ()
    if (match := _TRANSFER.search(order)) and f"transfer_to_{match[1]}" in prompt.tools:
        return Turn(calls=(Call(f"transfer_to_{match[1]}", {}),))
    if (match := _ASK.search(order)) and match[1] in prompt.tools and match[1] not in newest_call:
        return Turn(calls=(Call(match[1], {"input": f"work {match[2]}"}),))
    if match := _WORK.search(order):
        return _work(prompt, 1, int(match[1]), width=int(match[2] or 1))
    return _answer(prompt)


def instance(schema: dict[str, Any], text: str, definitions: dict[str, Any] | None = None) -> Any:
    """Return a value that matches a JSON schema. Strings have the given text."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        return instance(definitions[schema["$ref"].rsplit("/", 1)[-1]], text, definitions)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], text, definitions)
    match schema.get("type"):
        case "object":
            return {name: instance(part, text, definitions) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [instance(schema.get("items", {}), text, definitions)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return text


def _newest_results(prompt: Prompt) -> list[Entry]:
    results: list[Entry] = []
    for entry in reversed(prompt.entries):
        if entry.role != "tool":
            break
        results.append(entry)
    return results


def _work(prompt: Prompt, first: int, total: int, *, width: int) -> Turn:
    name = next((name for name, schema in prompt.tools.items() if "step" in schema.get("properties", {})), None)
    if name is None:
        return _answer(prompt)
    steps = range(first, min(first + width, total + 1))
    return Turn(calls=tuple(Call(name, {"step": step, "total": total}) for step in steps))


def _answer(prompt: Prompt) -> Turn:
    text = " ".join(["Done.", *prompt.secrets])
    output_tool = next((name for name in prompt.tools if name.startswith(_OUTPUT_TOOL)), None)
    if output_tool is not None:
        return Turn(calls=(Call(output_tool, instance(prompt.tools[output_tool], text)),))
    if prompt.output_schema is not None:
        return Turn(text=json.dumps(instance(prompt.output_schema, text)))
    return Turn(text=text)
