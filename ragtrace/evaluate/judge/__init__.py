"""The LLM that judges, where the user names one: asked through litellm, within a budget, and never taken at its word.

What it answers is read tolerantly, validated, and asked again once; what cannot be read is a parse failure, never a
score."""

from ragtrace.evaluate.judge.budget import paying_for
from ragtrace.evaluate.judge.client import Answer, Judge, JudgeError, close_judge, get_judge, use_judge
from ragtrace.evaluate.judge.completions import Usage
from ragtrace.evaluate.judge.deadlines import deadline, gather
from ragtrace.evaluate.judge.prompts import Prompt, schema_of

__all__ = [
    "Answer", "Judge", "JudgeError", "Prompt", "Usage", "close_judge", "deadline", "gather", "get_judge",
    "paying_for", "schema_of", "use_judge",
]  # fmt: skip
