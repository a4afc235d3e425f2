"""The files of one partition and of one data directory, in Kafka's formats; synchronous."""
