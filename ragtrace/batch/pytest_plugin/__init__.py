"""What `ragtrace.pytest` loads late: reviewed logs as cases, answers that are measured, and the run that they make."""
