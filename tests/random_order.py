"""Run tests in a random order: `--seed random`, or `--seed N` for the order that an earlier run printed.

A pytest plugin. Files are shuffled, and the tests within each file. The tests of a file stay together, because they
share servers and browsers.
"""

from __future__ import annotations

import random
import secrets
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", default=None, help="run tests in random order: `random`, or the seed of an earlier run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
    elif config.option.seed == "random":
        config.option.seed = str(secrets.randbelow(1_000_000))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of xdist the seed of the controller. All workers must have the same order."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.option.seed
    return None if seed is None else f"random order: repeat it with --seed {seed}, or make test SEED={seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.seed is not None:
        shuffle(items, config.option.seed)


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Shuffle the files, and the tests of each file."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order = random.Random(seed)
    groups = list(files.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]
