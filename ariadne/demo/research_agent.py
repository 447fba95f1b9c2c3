"""The story of a research agent whose pages are externalized. One page is rehydrated, and one call overflows."""

from __future__ import annotations

from collections.abc import Iterator

from ariadne.demo.filler import article
from ariadne.demo.script import Step, Story, Turn

SYSTEM = "You are a research agent. Cite every figure with its source, and say where sources disagree."
_TOPICS = (
    "Grid-scale batteries: what fails first",
    "Curtailment and storage on islands",
    "Round-trip loss in the field",
    "Sodium-ion pilots",
    "Fire safety after the 2024 incidents",
    "Second-life cells: an honest account",
    "Flow batteries at ten years",
    "Market rules that pay for duration",
    "Inverter limits in hot summers",
    "Recycling: recovered share by chemistry",
)


def _turns() -> Iterator[Turn]:
    for number, topic in enumerate(_TOPICS):
        steps = [
            Step("web_search", {"query": topic}, "\n".join(f"{n}. {topic}, part {n}" for n in range(1, 9)), 0.5),
            Step("fetch_page", {"title": topic}, article(topic, paragraphs=26), 1.1),
            Step("fetch_page", {"title": f"{topic}: data"}, article(f"{topic}: data", paragraphs=18), 0.9),
        ]
        ask = f"Next: {topic.lower()}. Keep it under 200 words and give me the two figures that matter."
        if number == 0:
            ask = (
                "I write a report on grid storage for the board, due 2 December, at most 12 pages, no vendor names. "
                "Begin with what fails first."
            )
        if number == 6:
            # The player replaces the marker by the id of the first page that was externalised.
            ask = "Compare that with what you read at the start, {artifact}: the same cause?"
        reply = f"Noted for the report: {topic}. Two figures kept with their source."
        yield Turn(ask, tuple(steps), reply, provider_overflows=number == 9)


STORY = Story(
    session_id="research-grid-storage",
    agent="researcher",
    model="gpt-5",
    window_tokens=16_000,
    system=SYSTEM,
    turns=tuple(_turns()),
    live_from=7,
    tools=("web_search", "fetch_page", "read_artifact"),
    externalizes=True,
)
