"""Trends: hourly figures of compactions by project and model, and the sessions behind them."""
