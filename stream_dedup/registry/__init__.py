"""Read records that the serializers of a schema registry wrote: from their bytes to JSON.

schemas.py fetches schemas over HTTP, readers.py decodes Avro and Protobuf by them, and frames.py joins both for
news/formats.py.
"""
