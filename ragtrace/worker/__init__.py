"""`ragtrace worker`: receives spans over OTLP, evaluates the requests in them, and sends the spans on with scores."""
