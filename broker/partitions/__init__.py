"""The replicas on this broker: logs, roles, moves, deletions, recovery, and repair by copying."""
