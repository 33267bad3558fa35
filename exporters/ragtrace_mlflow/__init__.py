"""Scores as assessments of traces in MLflow, and people's assessments back."""

from ragtrace_mlflow.trace_assessments import MlflowAssessments

__all__ = ["MlflowAssessments"]
