"""Groups of vectors, and their names."""

import numpy as np

from ragtrace.console.topics import clusters
from ragtrace.evaluate.models.embedding import unit_rows


def _clouds(count: int, size: int, seed: int = 0) -> np.ndarray:
    """`count` clouds of vectors, one after the other, and as many vectors of no cloud at the end."""
    chance = np.random.default_rng(seed)
    centres = unit_rows(chance.normal(size=(count, 64)))
    clouds = [centre + 0.08 * chance.normal(size=(size, 64)) for centre in centres]
    return unit_rows(np.concatenate([*clouds, chance.normal(size=(size, 64))]))


def test_clouds_become_groups() -> None:
    """Each cloud is one group without a stranger, what belongs to none stays out, and nothing is drawn by chance."""
    vectors = _clouds(6, 20)
    groups, again = ([group.tolist() for group in clusters.find_groups(vectors, 5, 50)] for _ in range(2))
    assert sorted(map(sorted, groups)) == [list(range(i, i + 20)) for i in range(0, 120, 20)]
    assert groups == again


def test_groups_are_bounded() -> None:
    """At most as many as asked for, the largest ones; few vectors make none."""
    vectors = np.concatenate([_clouds(4, 30), _clouds(4, 10, seed=1)])
    groups = clusters.find_groups(vectors, 5, 3)
    assert [len(group) for group in groups] == [30, 30, 30]
    assert clusters.find_groups(vectors[:4], 5, 3) == clusters.find_groups(vectors[:0], 5, 3) == []


def test_the_nearest_centre() -> None:
    centres = np.eye(3, dtype=np.float32)
    best, similarity = clusters.nearest(centres[[2, 0]], centres)
    assert (best.tolist(), similarity.tolist()) == ([2, 0], [1.0, 1.0])
    best, similarity = clusters.nearest(centres, centres[:0])
    assert best.tolist() == [-1, -1, -1]


def test_names_are_words_of_their_own() -> None:
    """The words that a group has and the others have not; never two forms of one word; never a common word."""
    refund = ["When is my refund here?", "refunds take long for a card", "refund to my card please"]
    parcel = ["When is my parcel here?", "parcels are late", "my parcel is late again"]
    names = clusters.name_groups([refund, parcel])
    assert [name.split(", ")[:2] for name in names] == [["refund", "card"], ["parcel", "late"]]
    assert "refunds" not in names[0]


def test_names_differ() -> None:
    same = ["late parcel", "parcel late", "the parcel is late"]
    first, second = clusters.name_groups([same, same], names_in_use=["parcel"])
    assert first != second
    assert clusters.name_groups([["12 34"], ["56"]]) == ["unnamed", "unnamed 2"]


def test_masks_are_no_words() -> None:
    words = set(clusters.words_of("mail [email] now call [number] [api_key]"))
    assert not {"email", "number", "api", "key", "api_key"} & words
