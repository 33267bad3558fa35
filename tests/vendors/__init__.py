"""The vendors' real clients, under both frameworks, against a server that answers in each vendor's format."""
