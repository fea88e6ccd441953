"""Explain a verdict in sentences for news readers; the status page and the sample show them.

The sentences name the stage that settled the item and what it compared; all numbers are in the evidence.
"""

from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.phrases import counted

_LET_THROUGH = "Let through: "
_HELD_BACK = "Held back: "
_HELD_BY_POLICY = "Held back by policy.updates = drop: "


def describe_verdict(verdict: Verdict) -> str:
    """Explain why the item was let through or held back.

    >>> from stream_dedup.dedup.verdict import Original
    >>> describe_verdict(Verdict("2", Kind.DUPLICATE, Stage.LEAD, False, Original("1", 0, 0, 0), Evidence(lead=0.93)))
    "Held back: 93 % of the shorter opening (the first 80 words or so) stands in the other's."
    >>> describe_verdict(Verdict("2", Kind.UNIQUE, Stage.NONE, True))
    'Let through: nothing like it is remembered.'
    """
    if verdict.kind is Kind.BAD:
        return f"Dead letter: it cannot be judged ({verdict.reason})."
    if verdict.kind is Kind.TOMBSTONE:
        forgotten = "and its original is forgotten" if verdict.original else "and no original of this id was known"
        return f"{_LET_THROUGH}it withdraws the item of this id, {forgotten}."
    evidence = verdict.evidence or Evidence()
    why, new = _why(verdict, evidence), _new(evidence)
    if verdict.kind is Kind.UPDATE and verdict.stage is not Stage.POLICY:
        start = _LET_THROUGH if verdict.forward else _HELD_BY_POLICY
        return f"{start}the same article with something new.{new and f' {new}'} {why[0].upper()}{why[1:]}"
    sentence = (_LET_THROUGH if verdict.forward else _HELD_BACK) + why
    if evidence.cut and verdict.kind is not Kind.UNIQUE:
        sentence += f" It is a {evidence.cut} cut of {_compared(evidence, 'the original')}."
    if new and verdict.kind is Kind.DUPLICATE:
        sentence += f" Nothing new: {new[0].lower()}{new[1:]}"
    if evidence.compared and verdict.stage is not Stage.EXACT:
        sentence += f" Compared with {_compared(evidence)}."
    return sentence


def _compared(evidence: Evidence, original: str = "its original") -> str:
    """What the similarities compare the item with."""
    if evidence.compared is None:
        return original
    return f"a held-back copy of its original ({evidence.compared})" if evidence.compared else "a held-back copy"


def _new(evidence: Evidence) -> str:
    """A sentence on how much of its prose is new; empty if novelty is unknown."""
    if evidence.novelty is None or evidence.new_words is None:
        return ""
    words, known = round(evidence.new_words), "that copy" if evidence.new_against == "copy" else "the original"
    if not words:
        return f"All of its prose stands in {known}."
    is_or_are = "is" if words == 1 else "are"
    share = _percent(evidence.new_share)
    return f"{counted(words, 'word')} of its prose ({share}) {is_or_are} not in {known}."


def _why(verdict: Verdict, evidence: Evidence) -> str:
    if verdict.stage in (Stage.ID, Stage.POLICY):
        return f"{verdict.reason or 'the id of an original'}."
    if verdict.stage is Stage.EXACT:
        return f"the same words as {_compared(evidence)}, throughout."
    if verdict.stage is Stage.HEADLINE:
        return f"the headlines are alike ({_percent(evidence.headline)} of their words in common){_overlap(evidence)}."
    if verdict.stage is Stage.LEAD:
        return f"{_percent(evidence.lead)} of the shorter opening (the first 80 words or so) stands in the other's."
    if verdict.stage is Stage.BODY:
        if evidence.distance is not None:
            return f"the texts' fingerprints differ in only {evidence.distance} bits."
        site = "one site" if evidence.same_source else "two sites"
        return f"the texts are alike ({_percent(evidence.body)} of their phrases in common), on {site}."
    if verdict.stage is Stage.PROSE:
        return "the original's headline stands over a page without an article of its own."
    if verdict.stage is Stage.GUARD:
        return f"much is alike, but it is another article: {evidence.guard}."
    if verdict.original is not None:
        return "an earlier item shares something, but headline, opening and text all say that it is another article."
    return "nothing like it is remembered."


def _overlap(evidence: Evidence) -> str:
    if evidence.containment is None:
        return ""
    return f", and {_percent(evidence.containment)} of the shorter text stands in the other"


def _percent(share: float | None) -> str:
    return "some" if share is None else f"{round(100 * share)} %"
