"""A record that was changed, moved, forged or made without the key does not pass, and every field counts."""

from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.changelog.authentication import HMAC_HEADER, Authenticator, is_authenticated
from stream_dedup.errors import ConfigError, CorruptBlock
from stream_dedup.settings import load_settings

FIRST, SECOND = "1" * 64, "2" * 64
FIELDS: dict[str, Any] = {
    "topic": "log", "partition": 0, "key": b"owner", "value": b"block",
    "headers": [("offsets", b'{"0": 7}'), ("sequence", b"3-3")],
}  # fmt: skip


def signed(authenticator: Authenticator, **changed: Any) -> Any:
    """A record with the hash of FIELDS, and then with changed fields."""
    name, value = authenticator.header(**FIELDS)
    fields = {**FIELDS, "headers": [*FIELDS["headers"], (name, value)], **changed}
    return SimpleNamespace(**fields)


def test_a_signed_record_passes() -> None:
    record = signed(Authenticator([FIRST]))
    assert is_authenticated(record)
    Authenticator([FIRST]).check(record)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "log2"},
        {"partition": 1},
        {"key": b"owne"},
        {"key": None},
        {"value": b"blocK"},
        {"value": b""},
    ],
)
def test_a_change_of_any_field_is_noticed(changed: dict[str, Any]) -> None:
    with pytest.raises(CorruptBlock, match="keyed hash does not fit"):
        Authenticator([FIRST]).check(signed(Authenticator([FIRST]), **changed))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("sequence", b"3-3"), ("offsets", b'{"0": 7}')],  # their order
        [("offsets", b'{"0": 8}'), ("sequence", b"3-3")],
        [("offsets", b'{"0": 7}'), ("sequence", b"4-4")],
        [("offsets", b'{"0": 7}'), ("sequence", b"3-3"), ("migration", b"{}")],
        [("offset", b's{"0": 7}'), ("sequence", b"3-3")],  # a byte moves from one field to the next
    ],
)
def test_a_change_of_any_header_is_noticed(headers: list[tuple[str, bytes]]) -> None:
    hash_header = Authenticator([FIRST]).header(**FIELDS)
    with pytest.raises(CorruptBlock, match="keyed hash does not fit"):
        Authenticator([FIRST]).check(SimpleNamespace(**(FIELDS | {"headers": [*headers, hash_header]})))


def test_a_record_without_a_hash_is_refused_unless_that_is_allowed() -> None:
    record = SimpleNamespace(**FIELDS)
    with pytest.raises(CorruptBlock, match=r"not authenticated.*changelog_accept_unauthenticated"):
        Authenticator([FIRST]).check(record)
    Authenticator([FIRST], accept_unauthenticated=True).check(record)


@pytest.mark.parametrize("value", [b"", None, b"x" * 32])
def test_a_wrong_hash_is_refused_even_then(value: bytes | None) -> None:
    record = SimpleNamespace(**(FIELDS | {"headers": [*FIELDS["headers"], (HMAC_HEADER, value)]}))
    with pytest.raises(CorruptBlock, match="does not fit"):
        Authenticator([FIRST], accept_unauthenticated=True).check(record)


def test_two_hashes_are_refused() -> None:
    record = signed(Authenticator([FIRST]))
    record.headers.append((HMAC_HEADER, b"x"))
    with pytest.raises(CorruptBlock, match="does not fit"):
        Authenticator([FIRST]).check(record)


def test_a_change_of_keys_goes_through_a_time_with_both() -> None:
    Authenticator([SECOND, FIRST]).check(signed(Authenticator([FIRST])))
    Authenticator([FIRST, SECOND]).check(signed(Authenticator([SECOND, FIRST])))
    with pytest.raises(CorruptBlock, match="add the former one as a second line"):
        Authenticator([SECOND]).check(signed(Authenticator([FIRST])))


def test_the_settings_name_the_keys_and_refuse_weak_ones() -> None:
    assert load_settings(worker={"changelog_key": f"{FIRST}\n\n{SECOND}\n"}).worker.changelog_keys == [FIRST, SECOND]
    assert load_settings().worker.changelog_keys == []
    with pytest.raises(ConfigError, match="changelog_key has fewer than 32 characters"):
        load_settings(worker={"changelog_key": f"{FIRST}\nsesame"})
    with pytest.raises(ConfigError, match="without changelog_key every block is accepted"):
        load_settings(worker={"changelog_accept_unauthenticated": True})
