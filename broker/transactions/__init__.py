"""The transaction coordinator: the partitions of `__transaction_state` that this broker leads."""
