"""Human review of stored chat logs: which logs to review, the verdicts, and the calibration made from them."""
