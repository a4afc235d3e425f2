"""Snapshots of a process's brokers, and the way back to one: what a test needs between two others.

`image.py` is what a snapshot remembers, and decides what must be undone to return to it. `take.py`
makes one, `restore.py` carries the undoing out on brokers that go on running, and `copies.py` keeps
the files for everything that can't be undone in place.
"""
