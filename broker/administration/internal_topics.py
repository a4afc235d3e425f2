"""How many replicas the internal topics of a small cluster have."""


def internal_topic_settings(brokers: int) -> dict[str, str]:
    """Kafka's defaults, three replicas of which two are in sync, as far as there are brokers."""
    replicas = str(min(3, brokers))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }
