"""The controller's shell: election, watches, and the effects of `core.controller` performed."""
