"""`python -m stream_dedup`: the same as the `stream-dedup` command."""

from stream_dedup.cli.main import main

main()
