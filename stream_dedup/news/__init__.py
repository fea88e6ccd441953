"""From the bytes of a record to the item that the decision works on: fields, dates, markup.

By the path of a record: formats (what it comes in), fields (which member means what), dates, clean (markup), decode
(all of it, to an item), item.
"""
