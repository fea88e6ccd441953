"""Follow a topic of the worker and say in a line what became of each record: verdict, headline, and why.

Reads what is committed, and writes nothing to Kafka. The verdict is that of the newest header, which is ours: headers
before it came with the item.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from stream_dedup.errors import BadItem
from stream_dedup.kafka.record_batch import Record
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.give_back import GIVEN_BACK
from stream_dedup.tools.topics.live_reader import LiveReader
from stream_dedup.worker.outgoing import DETAIL, ORIGINAL, REASON, VERDICT


@dataclass(frozen=True, slots=True)
class Line:
    """What is shown of a record."""

    time: int  # the record's, ms
    verdict: str  # "" in the input
    id: str  # its own, else its key
    title: str
    detail: str  # the original of a copy or update, or what is wrong with a bad item


def tail(settings: Settings, topic: str, since: int, stop: threading.Event, *, follows: bool) -> Iterator[Line]:
    """Yield the records of the topic from a time (ms) on; without `follows` to its present end."""
    decode = Decoder(settings.item, settings.registry)
    with LiveReader(settings, topic) as reader:
        reader.begin(since)
        while not stop.is_set() and (follows or not reader.caught_up):
            for record in reader.poll():
                yield line_of(record, decode)


def line_of(record: Record, decode: Decoder) -> Line:
    """Format what is shown of a record."""
    headers = {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
    fields: Mapping[str, object] = {}
    with suppress(BadItem):  # its bytes are no item of these settings
        fields = decode.read(record.value, record.headers).fields if record.value else {}
    reasons = " ".join(headers[name] for name in (REASON, DETAIL) if name in headers)
    detail = f"of {headers[ORIGINAL]}" if ORIGINAL in headers else reasons
    detail += ", given back by hand" if GIVEN_BACK in headers else ""
    id = str(fields.get("id") or (record.key or b"").decode("utf-8", "replace"))
    return Line(record.timestamp, headers.get(VERDICT, ""), id, str(fields.get("title") or ""), detail)
