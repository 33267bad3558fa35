"""Splits texts into sentences and claims, finds personal data and secrets, and masks them."""
