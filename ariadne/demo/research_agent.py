"""The stories of research agents: one whose data is externalized and rehydrated, and a finished one of some days ago.

In both, one call overflows the context window.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ariadne.demo.library import download_bids, download_efficiency, download_outages, fetch, search
from ariadne.demo.script import PastSession, Story, Turn

_SYSTEM = "You are a research agent. Cite every figure with its source, and say where sources disagree."


def _turns() -> Iterator[Turn]:
    yield Turn(
        "I write a report on grid storage for the board, due 2 December, at most 12 pages, no vendor names. Begin with "
        "what fails first.",
        (
            search("grid battery failures by cause", "what-fails-first", "fire-safety", "round-trip-loss"),
            fetch("what-fails-first"),
            download_outages(),
        ),
        "Noted for the report: what fails first is power conversion, 96 of 214 outages (45 %), and cells under 5 %. "
        "Sources disagree on hours by a factor of 1.6, and I use the operators' count.",
    )
    yield Turn(
        "Next: curtailment and storage on islands. Two figures that matter, not more.",
        (search("curtailment battery islands", "islands", "market-rules", "round-trip-loss"), fetch("islands")),
        "Two figures: the first hour of storage avoids 5.7 points of curtailment on Graciosa, a fourth hour only 0.6. "
        "Decision: we recommend two hours of mean load, because the fourth hour costs more than the diesel it replaces.",
    )
    yield Turn(
        "Round-trip loss in the field.",
        (
            search("round-trip efficiency at the meter", "round-trip-loss", "flow-batteries", "sodium-ion"),
            fetch("round-trip-loss"),
            download_efficiency(),
        ),
        "78.4 % at the meter as a mean of 23 sites, against 94 to 96 % in data sheets. Cooling alone takes 4.8 points.",
    )
    yield Turn(
        "Sodium-ion pilots. Keep it under 200 words.",
        (search("sodium-ion pilot capacity", "sodium-ion", "second-life"), fetch("sodium-ion")),
        "Cells cost 15 to 20 % less, systems 4 % more. Sodium wins in the cold: 88 % of its energy at −20 °C without heating.",
    )
    yield Turn(
        "Fire safety after the 2024 incidents.",
        (search("battery fire rules 2026", "fire-safety", "what-fails-first"), fetch("fire-safety")),
        "Incidents per GWh fell from 9.2 (2018) to 0.3 (2024), and a year still has 10 to 15. Open: fire services and water "
        "authorities disagree on extinguishing, so both have to be asked.",
    )
    yield Turn(
        "Second-life cells: an honest account.",
        (search("second-life batteries business case", "second-life", "flow-batteries"), fetch("second-life")),
        "Below 70 EUR per kWh for new cells there is no business case for mixed packs. One fleet of equal packs is the "
        "exception, with 98.9 % availability.",
    )
    yield Turn(
        "Compare that with what you read at the start, {artifact}: the same cause?",
        (search("availability of second-life sites", "second-life", "what-fails-first"),),
        "No. In the outage data the inverter leads and cells are rare. In second-life sites the packs lead, because a "
        "string is as weak as its weakest pack.",
    )
    yield Turn(
        "Flow batteries at ten years.",
        (
            search("vanadium flow battery operating experience", "flow-batteries", "market-rules"),
            fetch("flow-batteries"),
        ),
        "The electrolyte keeps 99 % of its capacity, pumps last 4.1 years. The price meets lithium only above 14 hours.",
    )
    yield Turn(
        "Market rules that pay for duration.",
        (
            search("capacity market duration batteries", "market-rules", "islands"),
            fetch("market-rules"),
            download_bids(),
        ),
        "A contract of 15 years cuts the cost of capital from 9.5 to 5.1 %. Italy contracts six hours, Texas builds 1.7.",
    )
    yield Turn(
        "Check the data of the outages again, then draft the page on risks. Which limits did I give you?",
        (download_outages(), fetch("what-fails-first")),
        "Due 2 December, at most 12 pages, no vendor names. The draft puts spare inverter modules first.",
        provider_overflows=True,
    )


def _heat_pump_turns() -> Iterator[Turn]:
    pages = (
        (
            "Heat pumps in old houses",
            "heat-pumps-old-houses",
            "Mean seasonal factor 3.1 in 77 old houses. Water temperature matters, age does not.",
        ),
        (
            "Field efficiency below zero",
            "heat-pumps-cold",
            "2.4 at −10 °C and 1.9 at −20 °C. Devices that are too large lose 0.4.",
        ),
        (
            "Noise rules by country",
            "heat-pumps-noise",
            "35 dB(A) after 22:00 in Germany and Denmark. More than half of all complaints are about a corner.",
        ),
        (
            "Grid load on cold days",
            "heat-pumps-grid",
            "The evening peak rises by 38 % with 60 % heat pumps. Simultaneity is 0.62, planners take 1.0.",
        ),
        (
            "Payback without subsidies",
            "heat-pumps-payback",
            "16.7 years for a terraced house, 24 by the count of the gas suppliers.",
        ),
    )
    names = [name for _, name, _ in pages]
    for number, (topic, name, reply) in enumerate(pages):
        rule = " For the city council: no brand names, and every figure with its year." if number == 0 else ""
        yield Turn(
            f"{'Begin with' if number == 0 else 'Next:'} {topic.lower()}. Two figures, with their sources.{rule}",
            (search(topic, name, *(other for other in names[number + 1 : number + 3])), fetch(name)),
            reply,
            provider_overflows=number == len(pages) - 1,
        )


STORY = Story(
    session_id="research-grid-storage",
    agent="researcher",
    model="gpt-5",
    window_tokens=9_000,
    system=_SYSTEM,
    turns=tuple(_turns()),
    live_from=7,
    tools=("web_search", "fetch_page", "read_artifact"),
    externalizes=True,
)
SESSIONS = (
    PastSession(
        Story(
            "research-heat-pumps",
            "researcher",
            "gpt-5",
            3_600,
            _SYSTEM,
            tuple(_heat_pump_turns()),
            live_from=99,
            tools=("web_search", "fetch_page"),
            user_pause_s=200,
        ),
        timedelta(days=3, hours=4),
    ),
)
