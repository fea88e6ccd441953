"""Read records that a schema registry's serializers wrote: from their bytes to JSON.

client fetches schemas over HTTP; avro and protobuf decode by them; frames joins both, for news/envelope.py.
"""
