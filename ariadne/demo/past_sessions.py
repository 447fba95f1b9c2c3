"""Sessions of the last days, so that lists, trends and costs have something to show.

Most of them are healthy. One has a refused summary, one an overflow, and one contains secrets that are redacted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from ariadne.demo.filler import article, reservation_record, search_hits, source_file, test_log
from ariadne.demo.script import Step, Story, Turn


@dataclass(frozen=True, slots=True)
class PastSession:
    """A story and the time since it began."""

    story: Story
    ago: timedelta


_CODER = "You are a coding agent. Work in small steps, read before you edit, and run the tests after every change."
_SERVICE = "You are a service agent of Aria Airlines. Never change a booking without the traveler's explicit yes."
_RESEARCHER = "You are a research agent. Cite every figure with its source."


def _coding_story(session_id: str, model: str, asks: Iterable[tuple[str, str]], *, refused_at: int = -1) -> Story:
    """A coding session: each request reads three files, searches, edits and runs the tests."""
    turns = []
    for number, (ask, reply) in enumerate(asks):
        name = f"{session_id} {number}"
        steps = [
            *(
                Step("read_file", {"path": f"src/{part}_{number}.py"}, source_file(f"{name} {part}", lines=90), 0.2)
                for part in ("api", "models", "tasks")
            ),
            Step("grep", {"pattern": ask.split()[1], "path": "src/"}, search_hits(name, count=30), 0.3),
            Step("edit_file", {"path": f"src/tasks_{number}.py", "change": reply[:60]}, "1 file changed", 0.2),
            Step("run_tests", {"command": "pytest -q"}, test_log(number), 1.4),
        ]
        turns.append(Turn(ask, tuple(steps), reply, summarizer_refuses=number == refused_at))
    tools = ("read_file", "grep", "edit_file", "run_tests")
    return Story(session_id, "coder", model, 16_000, _CODER, turns, live_from=99, tools=tools, user_pause_s=140)


def _support_story(session_id: str, asks: Iterable[tuple[str, str]], *, strategy: str = "task_state") -> Story:
    """A support session: each request looks up the reservation and searches for flights."""
    turns = [
        Turn(
            ask,
            (
                Step("find_reservation", {"number": session_id[-6:]}, reservation_record(f"{session_id}{number}"), 0.4),
                Step("search_flights", {"day": 3 + number}, reservation_record(f"{session_id} day {number}"), 0.8),
            ),
            reply,
        )
        for number, (ask, reply) in enumerate(asks)
    ]
    tools = ("find_reservation", "search_flights")
    return Story(
        session_id,
        "service",
        "gpt-5-mini",
        6_000,
        _SERVICE,
        turns,
        live_from=99,
        tools=tools,
        strategy=strategy,
        user_pause_s=75,
    )


def _research_story(session_id: str, topics: Iterable[str]) -> Story:
    """A research session whose last call overflows the context window."""
    topics = tuple(topics)
    turns = [
        Turn(
            f"Next: {topic.lower()}. Two figures, with their sources.",
            (
                Step("web_search", {"query": topic}, "\n".join(f"{n}. {topic}, part {n}" for n in range(1, 9)), 0.5),
                Step("fetch_page", {"title": topic}, article(topic, paragraphs=24), 1.1),
            ),
            f"Noted for the report: {topic}.",
            provider_overflows=topic == topics[-1],
        )
        for topic in topics
    ]
    tools = ("web_search", "fetch_page")
    return Story(
        session_id, "researcher", "gpt-5", 14_000, _RESEARCHER, turns, live_from=99, tools=tools, user_pause_s=200
    )


CODING = (
    PastSession(
        _research_story(
            "research-heat-pumps",
            (
                "Heat pumps in old houses",
                "Field efficiency below zero",
                "Noise rules by country",
                "Refrigerants after 2027",
                "Grid load on cold days",
                "Payback without subsidies",
            ),
        ),
        timedelta(days=3, hours=4),
    ),
    PastSession(
        _coding_story(
            "coding-AUTH-118",
            "gpt-5",
            (
                (
                    "Explain why sessions expire after 15 minutes (AUTH-118). Never log a token.",
                    "The refresh job used local time.",
                ),
                (
                    "Use UTC everywhere in the token code.",
                    "Token times are UTC now. Decision: store seconds, because the client expects them.",
                ),
                (
                    "Add a test for the change to summer time.",
                    "Added test_refresh_across_dst. It failed before the fix.",
                ),
                ("What is left to do?", "Nothing is left. AUTH-118 can be closed."),
            ),
        ),
        timedelta(days=2, hours=7),
    ),
    PastSession(
        _coding_story(
            "coding-CART-77",
            "claude-sonnet-4-5",
            (
                (
                    "Fix the rounding of discounts in the cart (CART-77). Keep prices in cents.",
                    "Discounts are rounded once, at the end.",
                ),
                (
                    "Check whether vouchers use the same path.",
                    "Vouchers had their own rounding. Both use round_half_even now.",
                ),
                ("Does the API change?", "No. The public API of cart/api.py is unchanged."),
                ("Write the changelog entry.", "Added to CHANGELOG under Fixed."),
            ),
        ),
        timedelta(days=1, hours=3),
    ),
    PastSession(
        _coding_story(
            "ops-nightly-sync", "gpt-5-mini", (("Did last night's sync finish?", "Yes, 48,211 rows in 6 minutes."),)
        ),
        timedelta(hours=14),
    ),
    PastSession(
        _coding_story(
            "coding-MIG-9",
            "gpt-5",
            (
                (
                    "Split the customer table (MIG-9). Never lock it for more than a second.",
                    "Planned in four steps, each below a second.",
                ),
                ("Write step one.", "Step one adds the new table and a trigger."),
                ("Go on with the backfill, 500 rows at a time.", "The backfill commits every 500 rows."),
                ("Measure it on staging.", "The longest lock was 240 ms."),
                ("Prepare the switch.", "The switch is one transaction behind a flag."),
            ),
            refused_at=2,
        ),
        timedelta(hours=5),
    ),
)
SUPPORT = (
    PastSession(
        _support_story(
            "support-KX3T91",
            (
                ("My bag did not arrive in Oslo. Reservation KX3T91.", "I opened claim BAG-5521 for you."),
                ("It is a green suitcase with a red ribbon.", "Noted in BAG-5521."),
                ("I stay at the harbor hotel until the 9th.", "The courier delivers there until the 9th."),
                ("Can I buy a coat?", "Up to 80 EUR, keep the receipt."),
                ("Thank you. Which claim was it?", "BAG-5521."),
            ),
        ),
        timedelta(days=4, hours=2),
    ),
    PastSession(
        _support_story(
            "support-LM7Q20",
            (
                ("Please change my seat, LM7Q20. I want a window.", "14F is free. Do you want it?"),
                ("Yes. Pay with 4111 1111 1111 1111, my email is lena.moreau@example.org.", "14F is booked."),
                ("My login does not work either. The password is: blue-harbor-77!", "Please never send a password."),
                ("Sorry. And call me at +49 151 23456789 if there is a delay.", "I noted that you prefer a call."),
                ("Is everything confirmed?", "Yes: 14F, one bag, and a call if there is a delay."),
            ),
            strategy="requirements_ledger",
        ),
        timedelta(days=1, hours=9),
    ),
    PastSession(
        _support_story(
            "support-PT5R44",
            (
                ("Can my dog travel with me to Lisbon? PT5R44.", "Up to 8 kg in the cabin."),
                ("She weighs 7.5 kg.", "Then yes. Decision: cabin, because she is below 8 kg."),
                ("Add her, but don't spend more than 70 EUR.", "Added for 60 EUR."),
                ("What do I need at the gate?", "Her passport and a closed bag, 46 x 28 x 24 cm."),
            ),
        ),
        timedelta(hours=2),
    ),
)
