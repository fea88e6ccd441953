"""From a list of feeds to their entries: each new or changed entry once, as a JSON object.

sources.py     OPML, files of URLs, URLs -> URLs
poller.py      when which feed is polled; the protocol that loses nothing
fetch.py       URL -> answer: redirects, limits of time and size
reach.py       where a request may go: public addresses, and what the operator names
documents.py   bytes of an answer -> entries with stable ids and digests
pages.py       entries -> the same with the text of their pages (--pages)
schedule.py    what an answer means for the next poll
state.py       what is remembered of feeds and entries, and what waits for delivery
outputs.py     lines -> standard output, a file, or a Kafka topic
"""
