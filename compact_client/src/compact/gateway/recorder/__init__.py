"""The recorder process of the gateway: it turns copies of requests and answers into events for the server."""
