"""Alerts: rules on what happens in sessions, their evaluation, and delivery to webhooks and e-mail."""
