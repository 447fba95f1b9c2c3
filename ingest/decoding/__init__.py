"""Turn request bodies into validated records."""
