"""Replication settings for the internal topics of a small cluster."""


def internal_topic_settings(brokers: int) -> dict[str, str]:
    """Kafka's defaults (three replicas, min.isr two), reduced to the number of brokers."""
    replicas = str(min(3, brokers))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }
