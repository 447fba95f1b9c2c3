"""A coding session with all features enabled: Ariadne, the archive, redaction, and the SDK's own spans.

To watch it live, set ARIADNE_URL and ARIADNE_API_KEY, which `make up` prints. Without
them, no events are sent. Runs offline with the SDK's scripted model.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from agents import Agent, Runner, SQLiteSession, Usage, function_tool, set_trace_processors
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from compact import AriadneExporter, CompactConfig, CompactManager, CompactPolicy, FileStorage
from compact.integrations.agents_sdk import AriadneTracingProcessor, compacting

FILES = ("parser", "lexer", "printer", "errors", "grammar", "tests")


@function_tool
def read_file(path: str) -> str:
    """Read a file from the repository."""
    return f"# {path}\nDATABASE_PASSWORD=hunter2\n" + "def step(state):\n    return state.next()\n" * 80


@function_tool
def edit_file(path: str, change: str) -> str:
    """Change a file in the repository."""
    return f"{path}: {change} (ok)"


def turn(number: int) -> list[ModelStep]:
    name = FILES[number % len(FILES)]
    read = function_call("read_file", {"path": f"src/{name}.py"}, call_id=f"read_{number}")
    edit = function_call("edit_file", {"path": f"src/{name}.py", "change": "handle EOF"}, call_id=f"edit_{number}")
    done = assistant_message(f"Decision: src/{name}.py now handles end of file, because the parser failed there.")
    tokens = Usage(requests=1, input_tokens=0, output_tokens=40, total_tokens=40)
    return [ModelStep(output=[item], usage=tokens) for item in (read, edit, done)]


async def main() -> None:
    folder = Path(os.environ.get("EXAMPLE_DIR") or tempfile.mkdtemp(prefix="coding-session-"))
    exporter = AriadneExporter(spool_dir=folder / "spool")
    processor = AriadneTracingProcessor(exporter)
    set_trace_processors([processor])
    manager = CompactManager(
        CompactConfig(
            model="gpt-5",
            max_context_tokens=8_000,
            policy=CompactPolicy(strategy="code_delta", keep_recent_turns=2, keep_tool_io_pairs=2),
            exporter=exporter,
            storage=FileStorage(folder / "archive"),
        )
    )
    session = SQLiteSession("coding-session")
    for number in range(8):
        model = ScriptedModel(turn(number))
        agent = Agent(
            name="coder", instructions="Fix the parser. Never push.", tools=[read_file, edit_file], model=model
        )
        request = f"Handle end of file in {FILES[number % len(FILES)]}.py. Do not change the public API."
        await Runner.run(agent, request, session=session, **compacting(manager, session=session))
    session.close()

    print(manager.remember("coding-session"))
    for file in sorted(folder.joinpath("archive").rglob("*")):
        if file.is_file():
            print(f"{file.stat().st_size:>9,}  {file.relative_to(folder)}")
    processor.force_flush()
    print("sent to Ariadne:", exporter.stats())
    exporter.close()


if __name__ == "__main__":
    asyncio.run(main())
