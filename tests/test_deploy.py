"""The files for containers: images with a version, and a workflow that checks every profile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
# A version with a patch level, or a digest. `ariadne` is built from the checkout.
_PINNED = re.compile(r":\d+\.\d+(\.\d+)?-\w+|:\d+\.\d+\.\d+|@sha256:[0-9a-f]{64}")


def images() -> list[str]:
    """Return the images of the compose file, with its defaults, of the Dockerfile and of the example settings."""
    compose = (ROOT / "docker-compose.yml").read_text()
    names = [
        re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", name) for name in re.findall(r"^ +image: (\S+)", compose, re.MULTILINE)
    ]
    names += re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names += re.findall(r"_IMAGE=(\S+)", (ROOT / "deploy" / "env.example").read_text())
    return [name for name in names if not name.startswith("ariadne:")]


@pytest.mark.parametrize("image", images())
def test_images_are_pinned(image: str) -> None:
    """An image that changes under its name cannot be reproduced."""
    assert _PINNED.search(image), image


def test_the_workflow_checks_every_profile() -> None:
    """`docker compose config` needs Docker, which the tests do not have."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    profiles = {profile for service in compose["services"].values() for profile in service.get("profiles", ())}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    commands = [step.get("run", "") for step in workflow["jobs"]["compose"]["steps"]]
    checked = {name for command in commands if "config" in command for name in re.findall(r"--profile (\w+)", command)}
    assert checked == profiles
