"""The ZooKeeper-shaped store: its contract, the embedded one, and Kafka's znodes in it."""
