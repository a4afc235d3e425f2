"""The transaction coordinator's machine: the states of transactional ids (KIP-98, KIP-360)."""
