"""Survey a feed: what its records have, what looks wrong, and settings that would mend it."""
