"""The group coordinator's machines: classic groups, consumer groups (KIP-848), committed offsets."""
