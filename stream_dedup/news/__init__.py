"""From the bytes of a record to the item that the decision works on: fields, dates, markup; and a survey of a feed.

By the path of a record: envelope and xml (what it comes in), fields (which member means what), dates, clean (markup),
decode (all of it, to an item), item; survey shows what was understood.
"""
