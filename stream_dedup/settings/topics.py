"""[topics]: the names of the five topics."""

from pydantic import Field, model_validator

from stream_dedup.settings.values import Table


class TopicSettings(Table):
    """The five topics."""

    input: str = Field("news.raw", min_length=1, description="Read from here.")
    output: str = Field("news.unique", min_length=1, description="What is not a near-duplicate, bytes untouched.")
    duplicates: str = Field(
        "news.duplicates", min_length=1, description="What was held back, with the evidence in headers."
    )
    dead_letters: str = Field(
        "news.dead-letters", min_length=1, description="What could not be judged, with the reason in headers."
    )
    changelog: str = Field(
        "news.dedup-changelog",
        min_length=1,
        description="What the index must remember; delete policy, retention at least window + margin.",
    )

    @model_validator(mode="after")
    def _are_distinct(self) -> "TopicSettings":
        names = [self.input, self.output, self.duplicates, self.dead_letters, self.changelog]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each topic needs its own name; used twice: {', '.join(twice)}")
        return self
