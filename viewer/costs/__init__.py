"""Money: prices, and the costs of sessions and compactions."""
