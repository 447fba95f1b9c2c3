"""The pages that the research agents of the demo find: articles, and the data behind some of them."""

from __future__ import annotations

import random
from pathlib import Path

from ariadne.demo.script import Step

_FOLDER = Path(__file__).parent / "articles"
_ARTICLES = {path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(_FOLDER.glob("*.md"))}
# Outages by cause in the article about failures. The rows of its data add up to them.
_OUTAGES = {"inverter": 96, "cooling": 51, "control": 38, "auxiliary": 19, "cell": 10}
_SITES = 61
_COUNTRIES = ("DE", "DK", "ES", "GB", "IE", "IT", "PT", "SE")


def search(query: str, *names: str) -> Step:
    """Return articles as the results of a search, with the first words of their text."""
    results = []
    for number, name in enumerate(names, start=1):
        title, _, text = _ARTICLES[name].partition("\n")
        lines = [line for line in text.splitlines() if line]
        results.append(
            f"{number}. {title.lstrip('# ')}\n   https://library.example/{name}\n   {lines[0]} {lines[1][:160]}…"
        )
    return Step("web_search", {"query": query}, "\n".join(results), 0.5)


def fetch(name: str) -> Step:
    return Step("fetch_page", {"url": f"https://library.example/{name}"}, _ARTICLES[name], 1.1)


def download_outages() -> Step:
    """Return the outages of each site as CSV."""
    pick = random.Random("outages by site")  # noqa: S311 - data of a demo, not secrets
    counts = {cause: [0] * _SITES for cause in _OUTAGES}
    for cause, total in _OUTAGES.items():
        for _ in range(total):
            counts[cause][pick.randrange(_SITES)] += 1
    rows = [
        "site,country,commissioned,mw,mwh,km_to_coast,outages_inverter,outages_cooling,outages_control,outages_auxiliary,outages_cell"
    ]
    for site in range(_SITES):
        power = pick.choice((2, 5, 10, 20, 50))
        place = f"S{site + 1:02d},{pick.choice(_COUNTRIES)},{pick.randint(2014, 2023)},{power},{power * pick.choice((1, 1.5, 2))}"
        rows.append(",".join([place, str(pick.randint(1, 190)), *(str(counts[cause][site]) for cause in _OUTAGES)]))
    return _table("what-fails-first/outages.csv", rows)


def download_efficiency() -> Step:
    """Return the efficiency at the meter of each site by month as CSV, lower in summer."""
    pick = random.Random("efficiency by month")  # noqa: S311
    months = [f"{2024 + month // 12}-{month % 12 + 1:02d}" for month in range(16)]
    rows = [",".join(["site", *months])]
    for site in range(23):
        mean = pick.uniform(73.0, 83.5)
        values = [mean - 3.4 * (1 - abs(int(month[5:]) - 7) / 6) + pick.uniform(-0.6, 0.6) for month in months]
        rows.append(",".join([f"M{site + 1:02d}", *(f"{value:.1f}" for value in values)]))
    return _table("round-trip-loss/by-month.csv", rows)


def download_bids() -> Step:
    """Return the accepted bids of an auction as CSV."""
    pick = random.Random("bids")  # noqa: S311
    rows = ["bid,zone,mw,hours,eur_per_mwh_year,cost_of_capital_percent"]
    for bid in range(72):
        zone = pick.choice(("CNOR", "CSUD", "SUD", "CALA", "SICI", "SARD"))
        price, capital = pick.uniform(10_900, 14_800), pick.uniform(4.6, 5.6)
        rows.append(
            f"B{bid + 1:03d},{zone},{pick.choice((40, 60, 80, 100, 150))},{pick.choice((4, 6, 8))},{price:.0f},{capital:.1f}"
        )
    return _table("market-rules/bids.csv", rows)


def _table(name: str, rows: list[str]) -> Step:
    return Step("fetch_page", {"url": f"https://library.example/{name}"}, "\n".join(rows), 0.9)
