"""[topics]: the names of the topics: input, output, duplicates, dead letters and changelog."""

from pydantic import Field, model_validator

from stream_dedup.settings.values import Table


class TopicSettings(Table):
    """The names of the five topics."""

    input: str = Field("news.raw", min_length=1, description="The worker reads items from this topic.")
    output: str = Field("news.unique", min_length=1, description="Items let through, byte for byte as they came.")
    duplicates: str = Field(
        "news.duplicates", min_length=1, description="Items held back, with the evidence in headers."
    )
    dead_letters: str = Field(
        "news.dead-letters", min_length=1, description="Records that cannot be judged, with the reason in headers."
    )
    changelog: str = Field(
        "news.dedup-changelog",
        min_length=1,
        description="Log from which a member restores the index. Cleanup policy delete, retention at least window + "
        "the input's retention + a day.",
    )

    @model_validator(mode="after")
    def _are_distinct(self) -> "TopicSettings":
        names = list(self.model_dump().values())
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"each topic needs its own name; used twice: {', '.join(repeated)}")
        return self
