"""Brokers between those who record traces and those who evaluate them: one message for each trace."""
