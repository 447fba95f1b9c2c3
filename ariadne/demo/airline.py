"""The systems of an airline that the support agents of the demo use: reservations with a history, flights, claims.

A reservation keeps what was done to it, so a later look shows the seats, bags and refunds of the calls before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ariadne.demo.script import Step

_AIRCRAFT = {"OTP": "A320", "LIS": "A321neo", "FRA": "A320neo", "YYZ": "A330-900", "OSL": "737-800", "ZRH": "A220-300"}
_FARES = (
    ("Light", "QLTAR", 0, "no changes, no refund", 0),
    ("Standard", "KSTAR", 90, "change for 35 EUR, refund minus 120 EUR", 1),
    ("Flex", "YFLAR", 240, "change and refund without a fee", 2),
)


class Airline:
    """The reservations of one story, by number."""

    def __init__(self, reservations: Mapping[str, dict[str, Any]]) -> None:
        self._reservations = {number: {"reservation": number, **content} for number, content in reservations.items()}

    def find(self, number: str) -> Step:
        return Step("find_reservation", {"number": number}, _json(self._reservations[number]), 0.4)

    def change(self, number: str, action: str, **changes: Any) -> Step:
        """Change a reservation, and record the action in its history."""
        reservation = self._reservations[number]
        reservation |= changes
        history = reservation.setdefault("history", [])
        history.append({"entry": len(history) + 1, "agent": "SVC-7", "action": action})
        arguments = {"number": number, "action": action, **changes}
        return Step("change_booking", arguments, _json(reservation), 0.7)

    def reject(self, number: str, action: str, *, code: str, message: str) -> Step:
        error = {"error": {"code": code, "message": message}, "reservation": number}
        return Step("change_booking", {"number": number, "action": action}, _json(error), 0.5, is_error=True)

    def search(self, origin: str, destination: str, day: str, *connections: tuple[str, str, str, str, int]) -> Step:
        """Search flights. Each connection is a flight, the place where it stops, its times and its lowest price."""
        options = [
            {
                "flight": flight,
                "route": [origin, *([via] if via else []), destination],
                "departs": f"{day}T{departs}",
                "arrives": f"{day}T{arrives}",
                "aircraft": _AIRCRAFT.get(via or destination, "A320"),
                "fares": [
                    {"family": family, "basis": basis, "eur": eur + extra, "rules": rules, "bags": bags}
                    for family, basis, extra, rules, bags in _FARES
                ],
                "seats_left": (int(flight[2:]) * 7) % 9 + 1,
            }
            for flight, via, departs, arrives, eur in connections
        ]
        arguments = {"from": origin, "to": destination, "day": day}
        return Step("search_flights", arguments, _json({"query": arguments, "options": options}), 0.9)

    def open_case(self, kind: str, case: str, **content: Any) -> Step:
        return Step(
            "open_case", {"kind": kind, **content}, _json({"case": case, "kind": kind, "state": "open", **content}), 0.4
        )


def traveler(name: str, ticket: str, seat: str, *, meal: str = "standard", bags: int = 0) -> dict[str, Any]:
    return {"name": name, "ticket": ticket, "seat": seat, "meal": meal, "bags": bags}


def leg(
    flight: str, origin: str, destination: str, departs: str, arrives: str, *, state: str = "confirmed"
) -> dict[str, Any]:
    return {
        "flight": flight,
        "from": origin,
        "to": destination,
        "departs": departs,
        "arrives": arrives,
        "cabin": "economy",
        "state": state,
    }


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1)
