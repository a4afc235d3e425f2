"""Values as texts."""


def text_of(value: object) -> str:
    """The text of a setting or of a field in a query: booleans in small letters, as in Java."""
    return str(value).lower() if isinstance(value, bool) else str(value)
