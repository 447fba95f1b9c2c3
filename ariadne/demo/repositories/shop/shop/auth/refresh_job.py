"""Refresh tokens of mobile clients before they expire. Runs every ten minutes."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from shop.auth import tokens
from shop.auth.models import DeviceSession

MARGIN = timedelta(minutes=12)


def run(session: Session) -> int:
    """Refresh the sessions that expire soon, and return their number."""
    soon = datetime.now() + MARGIN
    query = select(DeviceSession).where(DeviceSession.expires_at < soon, DeviceSession.closed_at.is_(None))
    count = 0
    for device in session.scalars(query):
        pair = tokens.refresh(device.refresh_token)
        device.access_token, device.refresh_token = pair.access, pair.refresh
        device.expires_at = pair.expires_at
        count += 1
    session.commit()
    return count
