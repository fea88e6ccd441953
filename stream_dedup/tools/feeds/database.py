"""Remember feeds and their entries, and keep lines until they are delivered: in an SQLite file, or in memory.

The state has the digests of known entries, and the lines that the output has not taken yet (the outbox). `store` is one
transaction: the file has all of a poll, with its lines as a numbered batch, or nothing of it.

The file holds addresses with their credentials, so only its owner may read it. While one process has it open, others
are refused.
"""

import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
import xxhash

from stream_dedup.errors import InputError
from stream_dedup.tools.feeds.feed_entries import Entry
from stream_dedup.tools.feeds.schedule import Feed

# Entries that a feed lists no longer are remembered, the last ones to leave. A feed that falls back to an older copy of
# itself, or lists an entry again after an update, does so within hours or days, and the busiest news feeds have a
# thousand entries a day. A feed that makes up new ids at each poll must not fill the disk: these entries take 300 KB.
_MOST_UNLISTED = 5000
_SCHEMA = """
CREATE TABLE run (owner TEXT, output TEXT, sequence INTEGER, length INTEGER);
CREATE TABLE feeds (url TEXT PRIMARY KEY, moved TEXT, etag TEXT, modified TEXT, due REAL, failures INTEGER,
    outcome TEXT) WITHOUT ROWID;
CREATE TABLE entries (feed BLOB, id BLOB, digest BLOB, listed REAL, PRIMARY KEY (feed, id)) WITHOUT ROWID;
CREATE TABLE outbox (id TEXT, line BLOB);
"""
_FORGET = """
DELETE FROM entries WHERE feed = :feed AND id IN
    (SELECT id FROM entries WHERE feed = :feed AND listed < :now ORDER BY listed DESC LIMIT -1 OFFSET :most)
"""

Line = tuple[str, bytes]
"""The id of an entry, and its JSON object."""


class State:
    """The state of a run. `path`: its file; None: memory. `output`: where the outbox goes.

    Raises InputError for a file that another process uses, that is damaged, or that belongs to something else.
    """

    def __init__(self, path: Path | None, output: str) -> None:
        self._path = path
        with self._errors(), ExitStack() as opened:
            if path:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = db = opened.enter_context(closing(sqlite3.connect(path or ":memory:", timeout=0)))
            db.executescript("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; BEGIN EXCLUSIVE")
            if not db.execute("PRAGMA schema_version").fetchone()[0]:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO run VALUES (?, ?, 0, 0)", (uuid.uuid4().hex, output))
            db.commit()
            run = db.execute("SELECT owner, sequence, length, output FROM run").fetchone()
            self.owner, self.sequence, self.length, owned_output = msgspec.convert(run, tuple[str, int, int, str])
            if owned_output != output:
                cure = "name that output, or another state"
                raise InputError(f"{path} belongs to the output {owned_output}, not to {output}; {cure}")
            opened.pop_all()

    def feeds(self, urls: Iterable[str]) -> dict[str, Feed]:
        """Return what is known of these feeds. Others stay in the file, because they may come back."""
        with self._errors():
            rows = msgspec.convert(self._db.execute("SELECT * FROM feeds").fetchall(), list[Feed])
        known = {feed.url: feed for feed in rows}
        return {url: known.get(url, Feed(url)) for url in urls}

    def digests(self, url: str) -> Mapping[bytes, bytes]:
        """Return the digests of a feed's remembered entries, by `key` of the entry's id."""
        with self._errors():
            return dict(self._db.execute("SELECT id, digest FROM entries WHERE feed = ?", (key(url),)))

    def store(self, feed: Feed, listed: Sequence[Entry], revisions: Sequence[Line], now: float) -> None:
        """Remember a poll, and put its revisions into the outbox, in one transaction. O(entries).

        `listed`: all entries of the document; none if it was not read. `revisions`: the new and changed ones.
        """
        rows = [(key(feed.url), key(entry.id), entry.digest, now) for entry in listed]
        with self._errors(), self._db as db:
            db.execute("INSERT OR REPLACE INTO feeds VALUES (?, ?, ?, ?, ?, ?, ?)", feed)
            db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)
            if rows:
                db.execute(_FORGET, {"feed": key(feed.url), "now": now, "most": _MOST_UNLISTED})
            db.executemany("INSERT INTO outbox VALUES (?, ?)", revisions)
            db.execute("UPDATE run SET sequence = sequence + ?", (bool(revisions),))
        self.sequence += bool(revisions)

    def outbox(self) -> list[Line]:
        """Return the unconfirmed lines of batch `sequence`, in order."""
        with self._errors():
            rows = self._db.execute("SELECT id, line FROM outbox ORDER BY rowid").fetchall()
            return msgspec.convert(rows, list[Line])

    def confirm(self, length: int) -> None:
        """Empty the outbox after its delivery; the output now has `length` bytes."""
        with self._errors(), self._db:
            self._db.execute("DELETE FROM outbox")
            self._db.execute("UPDATE run SET length = ?", (length,))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, msgspec.ValidationError) as error:
            cure = "if it is damaged, or another program's, name a new file, or restore a copy"
            cure = "another process uses it" if "locked" in str(error) else cure
            raise InputError(f"cannot use the state {self._path}: {error}; {cure}") from error


def key(name: str) -> bytes:
    """Return 16 bytes that stand for an id or a URL."""
    return xxhash.xxh3_128_digest(name.encode())
