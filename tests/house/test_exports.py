"""The names that other people's programs use. A change here is a change for every user."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

import ragtrace
from ragtrace.settings import Settings
from tests.row_files import table

EXPORTS: dict[str, list[str]] = table(__file__, "exports")
INIT = ["tracer_provider", "sampler", "sinks", "redact", "settings_file", "options"]
SETTINGS = """
enabled app env evaluators sample sample_per_second sample_slower_than head_sample
capture_content capture_tags explanations redact openinference source frameworks otlp_endpoint spans_file
transport transport_privacy transport_keys
phoenix_url mlflow_url langfuse_url report_file
calibration_file prometheus_port prometheus_host model_prices hold_seconds
queue_items workers exit_seconds models phone_regions public_contacts leaks_from_context
judge_model judge_api_base judge_timeout judge_concurrency
judge_max_tokens judge_budget_hour judge_budget_day judge_store judge_ledger judge_prompt g_eval_criteria
store store_key store_days store_bytes
"""
FIELDS: dict[str, list[str]] = table(__file__, "fields")
COMMANDS = """
demo eval compare report rules evaluators serve user token doctor ingest store calibrate export import-labels worker
dead-letters transport-keys rescore
"""


@pytest.mark.parametrize("package", EXPORTS)
def test_package_exports_exactly_these_names(package: str) -> None:
    """Each package exports the names of this list and no others, and each name can be imported."""
    module = importlib.import_module(package)
    assert sorted(module.__all__) == EXPORTS[package]
    assert all(getattr(module, name) is not None for name in EXPORTS[package])


def test_init_takes_these_parameters() -> None:
    """`ragtrace.init` keeps its parameters and every setting keeps its name."""
    assert list(inspect.signature(ragtrace.init).parameters) == INIT
    assert set(SETTINGS.split()) <= {field.name for field in fields(Settings)}


@pytest.mark.parametrize("name", FIELDS)
def test_records_have_exactly_these_fields(name: str) -> None:
    """The fields of the records that sinks and evaluators receive keep their names and their order."""
    assert [field.name for field in fields(getattr(ragtrace, name))] == FIELDS[name]


@pytest.mark.process
def test_command_line_has_exactly_these_commands() -> None:
    """`ragtrace --help` lists the commands that scripts call."""
    result = subprocess.run(
        [sys.executable, "-m", "ragtrace", "no-such-command"], capture_output=True, text=True, check=False
    )
    names = result.stderr.partition("(choose from ")[2].rstrip(")\n").replace("'", "").split(", ")
    assert sorted(names) == sorted(COMMANDS.split())
