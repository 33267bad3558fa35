"""Sentences that decline and sentences that only look like it, written for training the refusal head.

Their templates are in refusal_declines.txt and refusal_answers.txt, by language: `{t}` stands for a topic of the
language, `{n}` for a number. No data set's text is among them.
"""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

TOPICS = {
    "en": (
        "the return policy|parental leave|the price of the premium plan|dental cover|the SLA|release dates|competitors|"
        "your salary|the warranty on batteries|parking permits|the cancellation fee|travel insurance|the new office|"
        "opening hours|side effects|interest rates|the roof rack|data retention|the CEO|tax advice|medical questions|"
        "the delivery time|student discounts|visa rules|the emergency number|legal matters|individual employees"
    ),
    "de": "die Garantie|den Urlaub|die Rückgabe|den Preis|die Lieferzeit|Parkplätze|die Kündigungsfrist|Rabatte",
    "fr": "la garantie|le congé parental|le retour des articles|le prix|le délai de livraison|les remises|le parking",
    "es": "la garantía|las vacaciones|la devolución|el precio|el plazo de entrega|los descuentos|el aparcamiento",
    "it": "la garanzia|le ferie|il reso|il prezzo|i tempi di consegna|gli sconti|il parcheggio",
    "pt": "a garantia|as férias|a devolução|o preço|o prazo de entrega|os descontos|o estacionamento",
    "nl": "de garantie|het verlof|de retourzending|de prijs|de levertijd|de korting|parkeren",
    "zh": "保修期|退货|价格|送货时间|停车|折扣|年假",
    "ja": "保証期間|返品|価格|配送時間|駐車場|割引|休暇",
}


def sentences(seed: int = 14, copies: int = 4) -> list[tuple[str, int, str]]:
    """Sentences with label (1 declines) and template, by which they must not be split."""
    chance = random.Random(seed)
    rows: list[tuple[str, int, str]] = []
    for label, name in ((1, "refusal_declines.txt"), (0, "refusal_answers.txt")):
        for language, template in _templates(name):
            topics = TOPICS[language].split("|")
            for _ in itertools.repeat(None, copies if "{" in template else 2):
                text = template.replace("{t}", chance.choice(topics)).replace("{n}", str(chance.randint(2, 90)))
                rows.append((text[0].upper() + text[1:], label, template))
    return rows


def _templates(name: str) -> list[tuple[str, str]]:
    """The templates of a file, each with its language, which a line such as [de] names."""
    language, templates = "", []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\[(\w\w)\]", line):
            language = heading[1]
        else:
            templates.append((language, line))
    return templates
