"""The state machines of the group coordinator: classic and consumer groups, committed offsets."""
