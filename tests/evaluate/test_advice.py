"""The value of `decision.novelty` that labels recommend: calibrated to the feed, or none."""

import numpy as np
import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.evaluate.advice import LEAST_OF_A_KIND, LEAST_PAIRS, Advice, advise, advise_by_verdicts
from stream_dedup.evaluate.labels import Label
from stream_dedup.evaluate.novelty import rates

DEFAULT = 0.4
SEEDS = range(20)


def labelled(count: int, shift: float, seed: int, most: float = 1.0) -> tuple[list[Label], list[float]]:
    """Pairs whose log-odds of something new are `shift` above those of their novelty, which is at most `most`."""
    random = np.random.default_rng(seed)
    novelty = random.uniform(0.02, min(most, 0.98), count)
    is_new = random.random(count) < 1 / (1 + np.exp(-np.log(novelty / (1 - novelty)) - shift))
    labels = [Label("before", f"{n}", "cut", new="yes" if new else "no") for n, new in enumerate(is_new.tolist())]
    return labels, novelty.tolist()


def advice_of(labels: list[Label], novelty: list[float], present: float = DEFAULT) -> Advice:
    sites = [f"{n % 12}.example" for n in range(len(labels))]
    return advise(labels, novelty, [value < present for value in novelty], sites, present)


def test_where_novelty_is_right_the_default_stays_or_moves_little() -> None:
    values = [advice_of(*labelled(60, 0.0, seed)).novelty or 0 for seed in SEEDS]
    assert values.count(DEFAULT) > len(values) / 2
    assert all(abs(value - DEFAULT) < 0.16 for value in values)


@pytest.mark.parametrize("shift", [-1.2, 1.2])
def test_sixty_labels_of_another_feed_move_the_threshold_to_where_it_errs_less(shift: float) -> None:
    def cost(threshold: float) -> float:
        """A miss weighs as much as .6 / .4 repeats, as at the default."""
        labels, novelty = labelled(20_000, shift, seed=99)
        held = [value < threshold for value in novelty]
        lost = sum(one and label.new == "yes" for one, label in zip(held, labels, strict=True))
        return 1.5 * lost + sum(not one and label.new == "no" for one, label in zip(held, labels, strict=True))

    by_default = cost(DEFAULT)
    for seed in SEEDS:
        value = advice_of(*labelled(60, shift, seed)).novelty
        assert value is not None
        assert (value > DEFAULT) == (shift < 0)
        assert cost(value) < by_default


def test_few_labels_recommend_nothing_and_say_what_they_lack() -> None:
    labels, novelty = labelled(LEAST_PAIRS - 1, 0.0, seed=1)
    found = advice_of(labels, novelty)
    assert found.novelty is None
    assert found.reason == "1 pair more"
    assert "No value of decision.novelty is recommended from 39 labelled pairs" in found.remark()
    enough = [Label("a", str(n), "cut", new="yes" if n < LEAST_OF_A_KIND - 1 else "no") for n in range(200)]
    found = advice_of(enough, [0.2] * 200)
    assert (found.novelty, found.reason) == (None, "1 pair more with something new")
    assert advice_of(*labelled(LEAST_PAIRS, 0.0, seed=1)).novelty is not None


def test_one_site_of_many_does_not_move_the_threshold() -> None:
    """It would fit twenty labels of a site where everything is new, and be wrong on each of the other eleven."""
    labels, novelty = labelled(44, 0.0, seed=3)
    sites = [f"{n % 11}.example" for n in range(44)] + ["odd.example"] * 20
    labels += [Label("a", f"odd {n}", "cut", new="yes") for n in range(20)]
    novelty += [0.2] * 20
    assert advise(labels, novelty, [value < DEFAULT for value in novelty], sites, DEFAULT).novelty == DEFAULT


def test_of_items_held_back_alone_no_higher_value_is_recommended() -> None:
    for seed in SEEDS:
        found = advice_of(*labelled(120, -0.5, seed, most=DEFAULT))
        assert found.novelty is None or found.novelty <= DEFAULT
    found = advice_of(*labelled(400, -0.5, 1, most=DEFAULT))
    assert found.novelty == DEFAULT
    assert "only items held back are labelled" in found.remark()


def test_missed_and_repeated_are_those_of_each_value() -> None:
    labels, novelty = labelled(60, -1.2, seed=2)
    sites = [f"{n % 12}.example" for n in range(60)]
    exact = [Label("before", "exact", "copy", new="no")]
    found = advise(labels + exact, [*novelty, None], [value < 0.45 for value in novelty] + [True], [*sites, "x"], 0.45)
    assert found.novelty is not None
    assert sorted(found.rates) == sorted({0.3, 0.4, 0.45, 0.5, found.novelty})
    for threshold, measured in found.rates.items():
        held = [value < threshold for value in novelty] + [True]
        assert measured == rates(labels + exact, held, [*sites, "x"])
    assert found.pairs == 60


def test_a_verdict_that_names_another_original_says_nothing_about_the_pair() -> None:
    labels, novelty = labelled(50, 0.0, seed=1)
    verdicts = {
        label.later: Verdict(
            label.later, Kind.UNIQUE, Stage.NONE, True, Original("other" if n < 5 else "before", 0, -1, -1),
            Evidence(novelty=value),
        )
        for n, (label, value) in enumerate(zip(labels, novelty, strict=True))
    }  # fmt: skip
    assert advise_by_verdicts(labels, verdicts, {}, DEFAULT).pairs == 45
