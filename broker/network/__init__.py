"""The network of brokers under test, in which links are cut and slow.

Only brokers with an admin API have one. Each side applies it to what it uses: a broker to its
connections to other brokers (`peers/distant.py`), to those of its clients and to its session with
the store.
"""
