"""Texts that the plans of all families share: rounded counts, memory, and what a change of the scheme takes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.evaluate.planner import Plan
    from stream_dedup.evaluate.simhash_planner import LayoutPlan

MIGRATION = """\
These settings change the fingerprint scheme: the present changelog cannot be used with them. To keep what is
remembered, put them into a new settings file with a new [topics] changelog. Then, while the workers run:
  stream-dedup topics create --config NEW
  stream-dedup migrate --config NEW
A state directory of `filter --state` cannot be migrated: name a new one."""
NO_MIGRATION = "These settings keep the fingerprint scheme, so no migration is needed."


def rounded(count: float) -> str:
    """Round to two significant digits.

    >>> rounded(30123.4), rounded(220.1), rounded(2.345), rounded(0.01234), rounded(0)
    ('30,000', '220', '2.3', '0.012', '0')
    """
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else f"{count:.2g}"


def memory_text(plan: "Plan | LayoutPlan", items: int, body_bytes: float = 0.0) -> str:
    """Three lines: the bytes an original takes, the memory of all, and of the process.

    `body_bytes`: those of its body, if it is stored whole.
    """
    from stream_dedup.index.footprint import BOOKKEEPING, MEMORY_SLACK
    from stream_dedup.settings.memory import needed, sized

    body = f"+ {body_bytes:.0f} body " if body_bytes else ""
    return (
        f"bytes an original: {plan.record_bytes} signature {body}+ {plan.tables} tables × {plan.table_bytes:.2f} "
        f"+ {plan.id_bytes:g} id + {BOOKKEEPING} = {plan.bytes_per_item:.0f}\n"
        f"memory for {items:,} originals: {sized(plan.memory)}, at most {sized(plan.peak)} while tables merge\n"
        f"[worker] memory, with batches and the allocator: {sized(needed(MEMORY_SLACK * plan.peak))}\n"
    )
