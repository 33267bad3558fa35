"""Access and API over PostgreSQL: the tests that ask most of the database, once more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragtrace.console.chatlogs.store import Store, open_store
from tests.console import test_access, test_api, test_attacks
from tests.console.test_api import judged, shop
from tests.databases import Server, postgresql

__all__ = ["judged", "postgresql", "shop"]


@pytest.fixture
def store(postgresql: Server) -> Iterator[Store]:
    """An empty store in PostgreSQL."""
    opened = open_store(postgresql.database("migrated"))
    yield opened
    opened.close()


test_open = test_access.test_changes_need_the_csrf_token_at_a_console_without_users_too
test_key = test_access.test_two_browsers_cannot_use_one_key
test_session = test_access.test_a_session_ends_when_it_is_idle_and_in_any_case
test_ends = test_access.test_sessions_end_at_logout_with_the_password_and_when_the_user_is_disabled
test_attempts = test_access.test_five_wrong_passwords_from_one_address_are_enough
test_limits = test_access.test_one_address_cannot_try_many_names_nor_many_addresses_one_name
test_tokens = test_access.test_a_token_ends
test_audit = test_access.test_what_is_seen_and_changed_is_written_down
test_lines = test_access.test_the_log_is_paged_and_filtered
test_filters = test_api.test_traces_are_found_by_every_filter
test_pages = test_api.test_pages_of_traces_follow_each_other
test_sums = test_api.test_sums_and_choices
test_reviews = test_api.test_a_review_from_the_queue_to_the_agreement
test_feedback = test_api.test_feedback_is_kept_and_shown
test_alerts = test_api.test_alerts_become_reviews
test_labels = test_api.test_labels_come_in
test_calibration = test_api.test_a_threshold_is_looked_at_fitted_and_put_in_force
test_views = test_api.test_saved_views_are_everybodys_own
test_users = test_api.test_admins_manage_users_and_tokens
test_sql = test_attacks.test_sql_in_a_filter_is_a_text_like_any_other
test_bounds = test_attacks.test_values_have_bounds
test_forgery = test_attacks.test_nothing_changes_without_the_sessions_token
