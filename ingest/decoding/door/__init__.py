"""The one way from a request to records: redact its texts, and only then build rows and figures from them."""
