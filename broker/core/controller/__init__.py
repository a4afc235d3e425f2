"""The controller's decisions, without I/O: a context, state tables, and procedures.

A procedure is a generator: it changes the context, yields `effects`, and is sent the result of
each. The shell (`broker.cluster`) performs the effects on the store and the brokers, one procedure
at a time; the simulator performs them on a model. If the shell closes a procedure (because this
broker is no longer the controller), the whole context is dropped with it.
"""
