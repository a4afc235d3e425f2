"""Settings of the controller, and of the elections of partition leaders."""

from .declaration import BOOLEAN, INT, LONG, STRING, Setting


class ControllerSettings:
    """Settings that the controller uses, on the broker where it runs."""

    unclean_leader_election_enable = Setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Allow a replica that is not in sync to become the leader; records may be lost.",
    )
    odradek_unclean_last_replica = Setting(
        "odradek.unclean.last.replica",
        STRING,
        "lead",
        "What the last replica in sync does if it may have lost records with its machine: lead, as "
        "in Kafka, or wait until all replicas can be compared, or the loss is accepted.",
        choices=("lead", "wait"),
    )
    auto_leader_rebalance_enable = Setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Give leadership back to preferred replicas from time to time.",
    )
    leader_imbalance_check_interval_seconds = Setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often to check whether preferred replicas lead.",
        at_least=1,
    )
    leader_imbalance_per_broker_percentage = Setting(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "Once others lead more than this percentage of a broker's preferred partitions, "
        "leadership is given back.",
    )
    odradek_controller_candidate = Setting(
        "odradek.controller.candidate",
        BOOLEAN,
        True,
        "Take part when the brokers elect a controller. At least one broker of a cluster must.",
    )
