"""Claims that say the same as a clause of their context except in one slot: a name, an amount, a date, a limit, an order
in time, a duty or a quantifier.

"Plus costs 35 EUR a month" beside "Basic costs 12 EUR, Plus 20 EUR and Max 35 EUR a month": each word of the claim is in the
context, and models of meaning hardly see that two of them belong to different clauses. Few claims are concerned and nearly
all of them are wrong, so each rule here is on the side of the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ragtrace.text.clauses import ANCHORED, MARKERS, Clause, Slot, clauses, context_clauses, inner_capitals, is_amount, same_slot
from ragtrace.text.quantities import same

_ENOUGH, _OF_MARKER = 0.8, 0.7
"""Of the rest of a claim's clause, so much is in a clause of the context that says the same; all of a short one."""
_SHORT = 5
_ALL_OF = 0.75
_NO_RIVALS = frozenset({("can", "must"), ("can", "may"), ("may", "can")})
_COMPATIBLE = frozenset(map(frozenset, (("some", "most"), ("few", "some"), ("few", "only"), ("some", "only"))))
_MANY = 60
"""Clauses of a context among which one may say nearly the same of something else."""
_PLACED = frozenset({"name", "amount number"})
"""Kinds of which a clause often has several: the rival has to stand beside the same word."""


class ChangedSlots:
    """The clauses of a context, which are read when the first claim needs them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)

    @cached_property
    def _names(self) -> frozenset[str]:
        return context_clauses(self._texts).names

    @cached_property
    def _clauses(self) -> list[Clause]:
        return [clause for _, clause in context_clauses(self._texts).clauses]

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset().union(*(c.words for c in self._clauses))

    def changed_slot_in(self, claim: str) -> tuple[int, int] | None:
        """Returns the start and the end of a slot of the claim in which a clause of the context has another value, while
        it says all the rest; None where there is none."""
        for clause in clauses(claim, self._names | frozenset(inner_capitals([claim]))):
            words = clause.words if len(clause.words) > 1 else clause.words | clause.shared
            if not words or len(words & self._words) < _OF_MARKER * len(words):
                continue
            close = [c for c in self._clauses if len(words & (c.words | c.shared)) >= 0.5 * len(words)]
            for slot in clause.slots:
                if close and self._is_changed(clause, words, slot, close):
                    return slot.start, slot.end
        return None

    def _is_changed(self, claim: Clause, words: frozenset[str], slot: Slot, close: Sequence[Clause]) -> bool:
        others = [s for s in (*claim.slots, *claim.shared_slots) if s is not slot and s.kind not in MARKERS]
        firm = len(words) + sum(_is_firm(s, slot) for s in others)
        if slot.kind == "name" and len(self._clauses) > _MANY:
            return False
        if firm < 2 or (is_amount(slot) and not any(self._has(slot))):
            return False
        size = len(words) + len(others)
        is_marker = slot.kind in MARKERS
        enough = _OF_MARKER if is_marker else 1.0 if size < _SHORT or slot.kind in _PLACED else _ENOUGH
        rival = strict_rival = 0.0
        for clause in close:
            if not _is_rival(clause, claim, slot):
                continue
            cover = _cover(words, others, clause, clause.shared) / size
            if cover >= enough and (cover == 1 or not self._is_elsewhere(words, others, clause)):
                rival = max(rival, cover)
                strict_rival = max(strict_rival, _cover(words, others, clause, frozenset()) / size)
        if not rival:
            return False
        own = strict_own = 0.0
        for clause in self._has(slot):
            cover = 1.0 if slot.kind == "bound" or _is_all_in(clause, claim, slot) else _cover(words, others, clause, clause.shared) / size
            own = max(own, cover)
            is_of_another = clause.lead and not clause.lead <= claim.words | claim.shared
            strict_own = max(strict_own, _cover(words, others, clause, frozenset()) / size if is_of_another else cover)
        return own < rival or (not is_marker and strict_rival >= enough and strict_own < strict_rival)

    def _has(self, slot: Slot) -> Iterator[Clause]:
        """The clauses with the same value in such a slot."""
        for clause in self._clauses:
            alike = [s for s in clause.slots if s.kind == slot.kind] or clause.shared_slots
            if any(same_slot(s, slot) for s in alike):
                yield clause

    def _is_elsewhere(self, words: frozenset[str], others: Sequence[Slot], clause: Clause) -> bool:
        """Whether the context has elsewhere what a clause lacks of a claim: the claim may then say something else."""
        if (words - clause.words - clause.shared) & self._words:
            return True
        slots = (*clause.slots, *clause.shared_slots)
        return any(True for s in others if not any(same_slot(s, o) for o in slots) for _ in self._has(s))


def _is_rival(clause: Clause, claim: Clause, slot: Slot) -> bool:
    """Whether a clause of the context has another value in the slot, and does not speak of another case."""
    if clause.negations != claim.negations or (claim.negations and slot.kind in ("duty", "share")):
        return False
    alike = [s for s in clause.slots if s.kind == slot.kind]
    if slot.kind in ANCHORED:
        anchored = [s for s in alike if _same_anchor(s, slot)]
        return bool(anchored) and not any(
            s.value == slot.value or (slot.value, s.value) in _NO_RIVALS for s in anchored
        )
    if not alike or any(same_slot(s, slot) for s in alike):
        return False
    if slot.kind == "share":
        return any(frozenset((s.value, slot.value)) not in _COMPATIBLE for s in alike)
    others = [s for s in (*claim.slots, *claim.shared_slots) if s.kind == slot.kind]
    rivals = [s for s in alike if not any(same_slot(s, o) for o in others)]
    if slot.kind in _PLACED:
        rivals = [s for s in rivals if s.beside & slot.beside]
    return bool(rivals) and not any(
        a.kind == b.kind and a.kind in ("bound", "order") and _same_anchor(a, b) and a.value != b.value
        for a in claim.slots
        for b in clause.slots
    )


def _same_anchor(a: Slot, b: Slot) -> bool:
    """Whether two limits are of the same amount, two orders of the same event, two duties of the same deed."""
    if a.quantity is not None and b.quantity is not None:
        return same(a.quantity, b.quantity)
    return a.anchor == b.anchor != "" or (a.kind == "duty" and "" in (a.anchor, b.anchor))


def _is_firm(other: Slot, slot: Slot) -> bool:
    """Whether a slot tells what a claim is about: the name before an amount, another amount beside a limit."""
    if other.kind == "name":
        return is_amount(slot) and other.start < slot.start
    return slot.kind == "bound" and is_amount(other) and not same(other.quantity, slot.quantity)  # type: ignore[arg-type]


def _is_all_in(clause: Clause, claim: Clause, slot: Slot) -> bool:
    """Whether a claim has nearly all that a clause with its slot says."""
    names = [s for s in clause.slots if s.kind == "name" != slot.kind]
    own = (*claim.slots, *claim.shared_slots)
    hits = len(clause.words & (claim.words | claim.shared)) + sum(any(same_slot(s, o) for o in own) for s in names)
    return hits >= _ALL_OF * (len(clause.words) + len(names))


def _cover(words: frozenset[str], others: Sequence[Slot], clause: Clause, shared: frozenset[str]) -> int:
    slots = (*clause.slots, *clause.shared_slots) if shared or not clause.shared else clause.slots
    return len(words & (clause.words | shared)) + sum(any(same_slot(s, o) for o in slots) for s in others)
