"""The controller's I/O: election, watches, and performing the effects of `core.controller`."""
