"""Redacts the texts that the judge reads: the judge is often a service of somebody else."""

from ragtrace.errors import SettingError
from ragtrace.settings import Settings
from ragtrace.text.redaction import TimeLimited, mask_pii, redaction_function
from ragtrace.text.sanitizer import Sanitizer


def prompt_sanitizer(settings: Settings) -> Sanitizer:
    """What prepares each text of a prompt: `judge_redact`, or `redact` where that is empty. `hash` is `pii` here,
    because the judge joins nothing.

    Raises SettingError for `metadata_only`, under which the judge would have nothing to read, and for a function that
    cannot be imported; MissingExtraError for `names` without the extra `models`."""
    mode = settings.judge_redact or settings.redact
    if mode in ("", "off"):
        return Sanitizer()
    if mode == "metadata_only":
        raise SettingError(
            f"{'judge_redact' if settings.judge_redact else 'redact'} is metadata_only, but the judge of "
            f"{settings.judge_model!r} reads the texts of requests; set judge_redact to what it may read: pii, names, "
            "off, or module:attribute of a function"
        )
    if mode in ("pii", "hash"):
        return Sanitizer(mask_pii)
    if mode == "names":
        from ragtrace.evaluate.models.person_names import mask_names

        mask_names("Anna Berg lives at 12 Main Street.")  # raises here, and not at each question, if it cannot run
        return Sanitizer(mask_names)
    return Sanitizer(TimeLimited(redaction_function(mode, "judge_redact")))
