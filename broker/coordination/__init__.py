"""The coordination store: its interface, ZooKeeper, the embedded store, and Kafka's znodes."""
