"""Load the kernels: the forkserver of test_filter_killed.py imports this, so a kill hits the work and not the start."""

from stream_dedup.settings import load_settings
from tests.batch.feed import judge_lines

list(judge_lines([b'{"id": 1, "text": "loads the kernels"}'], load_settings()))
