"""Encodes and decodes Kafka's messages and record batches; uses no sockets, files or clock.

`schema.py` says how messages are declared, `messages/` declares them, `compiler.py` makes the
codecs; `framing.py` has frames and headers, `records/` has record batches, `errors.py` error codes.
"""
