"""The names of the roles; apart from `Role`, so that the command line shows its help without loading the client."""

from enum import StrEnum


class RoleName(StrEnum):
    """The values of `stream-dedup run --role`."""

    ALL = "all"
    FINGERPRINT = "fingerprint"
    JUDGE = "judge"
    PUBLISH = "publish"
