"""Tools beside a running worker, on its topics and its changelog."""
