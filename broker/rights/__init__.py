"""Rights: which one each API needs, and whether the client of a request has it."""
