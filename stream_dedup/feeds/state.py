"""What is remembered of feeds, and what waits for delivery: one SQLite file, or memory that ends with the process.

In: the `Poll`s of a batch. Out: which entries are new or changed, and the lines that the output has not taken yet (the
outbox). `store` is one transaction: either the file knows of a batch and has its lines, or it knows nothing of it.

The file holds addresses with their credentials, so only its owner may read it. While a process has it open, others are
refused.
"""

import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import xxhash

from stream_dedup.errors import InputError
from stream_dedup.feeds.documents import Entry
from stream_dedup.feeds.schedule import UNCHANGED, Feed

# Seconds for which an entry is remembered that its feed no longer lists. A feed that turns to an older copy of itself,
# or lists an entry again after an update, does so within hours or days. The deduplicator remembers ids for a window, by
# default a week; twice that leaves nothing to chance, and costs some 60 bytes an entry.
_FORGET = 14 * 24 * 3600.0
# Of such entries, the newest are kept: a feed that makes up new ids at each poll must not fill the disk.
_MOST_UNLISTED = 10_000
_APPLICATION = 0x53444644  # "SDFD"; other SQLite files are refused
_SCHEMA = """
CREATE TABLE run (owner TEXT, output TEXT, sequence INTEGER, length INTEGER);
CREATE TABLE feeds (url TEXT PRIMARY KEY, moved TEXT, etag TEXT, modified TEXT, due REAL, failures INTEGER,
    outcome TEXT, polled REAL) WITHOUT ROWID;
CREATE TABLE entries (feed BLOB, id BLOB, digest BLOB, listed REAL, PRIMARY KEY (feed, id)) WITHOUT ROWID;
CREATE TABLE outbox (id TEXT, line BLOB);
"""
_UNLISTED = """
DELETE FROM entries WHERE feed = :feed AND (listed < :now - :forget OR id IN
    (SELECT id FROM entries WHERE feed = :feed AND listed < :now ORDER BY listed DESC LIMIT -1 OFFSET :most))
"""
_STILL_LISTED = """
UPDATE entries SET listed = :now WHERE feed = :feed AND listed = (SELECT max(listed) FROM entries WHERE feed = :feed)
"""

Line = tuple[str, bytes]
"""The id of an entry, and its JSON object."""


class Poll(NamedTuple):
    """The outcome of one poll. `listed`: the entries of the document; None if none was read. `revisions`: those of them
    that are new or changed, as lines.
    """

    feed: Feed
    listed: Sequence[Entry] | None = None
    revisions: Sequence[Line] = ()


class State:
    """`path` None: in memory. `output`: what the outbox is for; the file of another output is refused.

    Raises InputError for a file that another process uses, that is damaged, or of something else.
    """

    def __init__(self, path: Path | None, output: str) -> None:
        self._path = path
        with self._errors(), ExitStack() as opened:
            if path:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = opened.enter_context(closing(sqlite3.connect(path or ":memory:", timeout=0)))
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN EXCLUSIVE")
            if not self._db.execute("PRAGMA schema_version").fetchone()[0]:
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO run VALUES (?, ?, 0, 0)", (uuid.uuid4().hex, output))
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.commit()
            if self._db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                raise InputError(f"{path} is another program's database; name a new file as the state")
            self.owner, of, self.sequence, self.length = self._db.execute("SELECT * FROM run").fetchone()
            if of != output:
                cure = "name that output, or another state"
                raise InputError(f"{path} belongs to the output {of}, not to {output}; {cure}")
            opened.pop_all()

    def feeds(self, urls: Iterable[str], now: float) -> dict[str, Feed]:
        """What is known of these feeds; others are forgotten, some time after they left the list."""
        with self._errors(), self._db:
            known = {row[0]: Feed(*row[:-1]) for row in self._db.execute("SELECT * FROM feeds")}
            wanted = {url: known.get(url, Feed(url)) for url in urls}
            for url in known.keys() - wanted.keys():
                parameters = {"feed": _key(url), "now": now, "forget": _FORGET, "most": _MOST_UNLISTED, "url": url}
                self._db.execute(_UNLISTED, parameters)
                self._db.execute("DELETE FROM feeds WHERE url = :url AND polled < :now - :forget", parameters)
        return wanted

    def digests(self, url: str) -> Mapping[bytes, bytes]:
        """The digest of each entry of a feed that is remembered, by `key` of its id."""
        with self._errors():
            return dict(self._db.execute("SELECT id, digest FROM entries WHERE feed = ?", (_key(url),)))

    def store(self, polls: Sequence[Poll], now: float) -> None:
        """Remember the polls, and put their revisions into the outbox, in one transaction. O(entries listed)."""
        with self._errors(), self._db:
            for feed, listed, revisions in polls:
                at = {"feed": _key(feed.url), "now": now, "forget": _FORGET, "most": _MOST_UNLISTED}
                self._db.execute("INSERT OR REPLACE INTO feeds VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*feed, now))
                if listed is not None:
                    rows = [(at["feed"], key(entry.id), entry.digest, now) for entry in listed]
                    self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)
                    self._db.execute(_UNLISTED, at)
                elif feed.outcome == UNCHANGED:
                    self._db.execute(_STILL_LISTED, at)
                self._db.executemany("INSERT INTO outbox VALUES (?, ?)", revisions)
            if any(poll.revisions for poll in polls):
                self._db.execute("UPDATE run SET sequence = sequence + 1")
                self.sequence += 1

    def outbox(self) -> list[Line]:
        """The lines of batch `sequence` that are not confirmed, in their order."""
        with self._errors():
            return self._db.execute("SELECT id, line FROM outbox ORDER BY rowid").fetchall()

    def confirm(self, length: int) -> None:
        """The outbox was delivered; `length`: bytes of the output after it."""
        with self._errors(), self._db:
            self._db.execute("DELETE FROM outbox")
            self._db.execute("UPDATE run SET length = ?", (length,))
        self.length = length

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            cure = "another process uses it" if "locked" in str(error) else f"{error}; is the disk full?"
            raise InputError(f"cannot use the state {self._path}: {cure}") from error
        except sqlite3.DatabaseError as error:
            text = f"{self._path} is damaged, or no state of feeds ({error}); name another file, or restore a copy"
            raise InputError(text) from error
        except OSError as error:
            raise InputError(f"cannot use the state {self._path}: {error.strerror}") from None


def key(name: str) -> bytes:
    """What stands for an id: 16 bytes."""
    return xxhash.xxh3_128_digest(name.encode())


def _key(url: str) -> bytes:
    return xxhash.xxh3_64_digest(url.encode())
