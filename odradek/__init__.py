"""Odradek: a broker in Python that speaks Kafka's wire protocol.

`odradek.testing` starts brokers in tests, `python -m odradek` is the command line.  Importing this
package imports nothing else, because every pytest run imports it.
"""

__version__ = "0.1.0"
