"""What the test suites of other tracing libraries try, on ragtrace: OpenInference, OpenTelemetry's instrumentation of
GenAI, OpenLLMetry, Langfuse and MLflow. Written anew with the frameworks' fakes; each line of a table is a scenario."""
