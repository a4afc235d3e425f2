"""The declarations of all settings: what is built, what comes later, what never will."""
