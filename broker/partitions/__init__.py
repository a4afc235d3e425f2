"""The replicas on this broker: logs, roles, moves, deletions, recovery, copies made anew."""
