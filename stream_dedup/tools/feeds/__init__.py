"""Turn a list of feeds into their entries: each new or changed entry once, as a JSON object.

subscriptions.py   OPML, files of URLs, URLs -> URLs
poller.py          when which feed is polled; the protocol that loses nothing
schedule.py        what an answer means for the next poll
web.py             URL -> answer; where a request may go, and limits of time and size
feed_entries.py    bytes of an answer -> entries with stable ids and digests
pages.py           entries -> the same with the text of their pages (--pages)
database.py        what is remembered of feeds and entries, and the lines that wait for delivery
delivery.py        lines -> standard output, a file, or a Kafka topic
"""
