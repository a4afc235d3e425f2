"""The controller's decisions, without I/O: a context, state tables, and procedures.

A procedure is a generator: it changes the context, yields `effects`, and is sent what became of
each. The shell (`broker.cluster`) performs them on the store and the brokers, one procedure at a
time; the simulator performs them on a model. If the shell closes a procedure (this broker is not
the controller any more), the whole context is dropped with it.
"""
