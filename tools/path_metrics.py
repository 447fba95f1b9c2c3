"""Report how many functions, modules and packages one operation crosses: `python -m tools.path_metrics [PATH …]`.

Each path runs once to fill caches, and once under `sys.setprofile`. A switch is a call from a function of one module
(or package) of the project to a function of another. A package is a folder of the second level, such as
`compact.engine`. To add a path, write a function that prepares it and returns the operation, and add it to `PATHS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from compact import CallbackExporter, CompactConfig, CompactManager

PROJECT = ("compact", "ingest", "viewer", "ariadne")

Operation = Callable[[], object]


@dataclass(slots=True)
class Crossings:
    """The functions, modules and packages that the calls of one operation crossed."""

    functions: set[CodeType] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    module_switches: int = 0
    package_switches: int = 0
    engine_switches: int = 0
    """Switches between two modules of `compact.engine`."""

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a call. This is the function that `sys.setprofile` expects."""
        module = _module_of(frame)
        if event != "call" or module is None:
            return
        self.functions.add(frame.f_code)
        self.modules.add(module)
        caller = _caller_of(frame)
        if caller is None or caller == module:
            return
        self.module_switches += 1
        packages = {_package_of(caller), _package_of(module)}
        self.package_switches += len(packages) > 1
        self.engine_switches += packages == {"compact.engine"}


def _module_of(frame: FrameType) -> str | None:
    """Return the module of a frame, None if it is not part of the project."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] in PROJECT else None


def _caller_of(frame: FrameType) -> str | None:
    """Return the module of the nearest caller that is part of the project."""
    caller = frame.f_back
    while caller is not None:
        module = _module_of(caller)
        if module is not None:
            return module
        caller = caller.f_back
    return None


def _package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def measure(prepare: Callable[[], Operation]) -> Crossings:
    """Run an operation twice, each time freshly prepared, and return what the second run crossed."""
    prepare()()
    operation = prepare()
    crossings = Crossings()
    sys.setprofile(crossings.record)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return crossings


def prepare_preflight() -> Operation:
    """Return a check of a conversation with one new message, far below the trigger."""
    manager = CompactManager(CompactConfig("gpt-5", 1_000_000, exporter=CallbackExporter(lambda _: None)))
    messages = _conversation(40)
    manager.preflight("path", messages)
    messages.append({"role": "user", "content": "What is left to do?"})
    return lambda: manager.preflight("path", messages)


def prepare_compaction() -> Operation:
    """Return the compaction of a conversation of 165 messages."""
    manager = CompactManager(CompactConfig("gpt-5", 16_000, exporter=CallbackExporter(lambda _: None)))
    messages = _conversation(41)
    assert len(messages) == 165
    return lambda: manager.preflight("path", messages)


def _conversation(turns: int) -> list[dict[str, Any]]:
    """Return one system message and four messages per turn: a question, a tool call, its output and an answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful engineer."}]
    for number in range(turns):
        path, call_id = f"src/module_{number}.py", f"call-{number}"
        function = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
        source = "".join(f"def f_{number}_{line}(x):\n    return x + {line}\n" for line in range(20))
        messages += [
            {"role": "user", "content": f"Fix test_{number} in {path}. Never change the public API of part {number}."},
            {
                "role": "assistant",
                "content": f"I will read {path}, because test_{number} fails there.",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": source},
            {"role": "assistant", "content": f"Decision: return x - {number}, since the caller adds it again."},
        ]
    return messages


PATHS: Mapping[str, Callable[[], Operation]] = {
    "preflight": prepare_preflight,
    "compaction": prepare_compaction,
}


def main(names: list[str]) -> int:
    """Print one line per path."""
    columns = ("functions", "modules", "module switches", "package switches", "engine switches")
    rows = [f"{'path':12}" + "".join(f"{column:>18}" for column in columns)]
    for name in names or PATHS:
        crossings = measure(PATHS[name])
        figures = (
            len(crossings.functions),
            len(crossings.modules),
            crossings.module_switches,
            crossings.package_switches,
            crossings.engine_switches,
        )
        rows.append(f"{name:12}" + "".join(f"{figure:>18,}" for figure in figures))
    sys.stdout.write("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
