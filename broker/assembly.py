"""Builds all parts of a broker, in the order of their dependencies.

The parts of the broker itself (`LocalBroker`) come first, then those that communicate with other
brokers. The controller and its client send requests to this broker's own handlers, which need the
whole `Node`. They get a function for that, and call it only once the node exists.
"""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from odradek.protocol.schema import Message

from .administration.client_quotas import ClientQuotas
from .administration.dynamic_configs import DynamicConfigs
from .administration.scram_users import ScramUsers
from .administration.topics import Topics
from .cluster.controller import ClusterController
from .cluster.links import BrokerLinks
from .coordination.current import CurrentSession
from .coordinators.registry import Coordinators
from .core.topic_names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from .groups.coordinator import GroupCoordinator
from .local_broker import LocalBroker
from .member.control import ControlRequests
from .member.member import Member
from .member.producer_ids import ProducerIds, allocator
from .node import Node
from .partitions.gauges import replica_gauges
from .pause import Pause
from .peers.addresses import Peers
from .peers.controller_client import ControllerClient
from .peers.own import ask_self, call_self
from .peers.security import Securities
from .replication.replicator import Replicator
from .settings.authorization import super_users_in
from .tasks import TaskSupervisor
from .transactions.coordinator import TransactionCoordinator
from .transactions.verifier import Verifier

if TYPE_CHECKING:
    from .administration.acls import Acls


def _acls(local: LocalBroker, session: CurrentSession) -> "Acls | None":
    """The authorizer, if one is configured."""
    config = local.config
    if not config.authorizer_class_name:
        return None
    from .administration.acls import Acls  # rarely needed
    from .core.acls.authorizer import Authorizer

    authorizer = Authorizer(
        super_users=super_users_in(config.super_users),
        allows_everyone_if_none=config.allow_everyone_if_no_acl_found,
    )
    return Acls(session, authorizer, local.clock)


def assemble(
    local: LocalBroker,
    session: CurrentSession,
    tasks: TaskSupervisor,
    securities: Securities,
    pause: Pause,
) -> tuple[Node, Member]:
    """Build all parts of a broker; none of them is started."""
    config, broker_id, metadata = local.config, local.broker_id, local.metadata

    async def ask_node(request: Message, version: int) -> Message:
        return await ask_self(node, request, version)

    def call_node(request: Message, version: int) -> Message | Awaitable[Message]:
        return call_self(node, request, version)

    network = local.runtime.network
    link_to = None if network is None else partial(network.link, broker_id)
    peers = Peers(config, metadata, securities, pause, link_to)
    client = ControllerClient(
        peers,
        metadata,
        broker_id=broker_id,
        ask_self=ask_node,
        timeout_ms=config.request_timeout_ms,
    )
    links = BrokerLinks(broker_id, config, ask_node, securities, pause, link_to)
    controller = ClusterController(session, broker_id, config, local.runtime, links, tasks)
    topics = Topics(local, controller, session)
    dynamic_configs = DynamicConfigs(local, controller, session)
    groups = GroupCoordinator(local, topics, dynamic_configs, session, tasks)
    replicator = Replicator(local, tasks, peers, client)
    producer_ids = ProducerIds(
        allocator(
            client.ask,
            peers.versions.allocate_producer_ids,
            broker_id=broker_id,
            broker_epoch=lambda: local.broker_epoch,
        )
    )
    transactions = TransactionCoordinator(
        local, topics, session, tasks, peers, call_node, producer_ids.ready_id
    )
    coordinators = Coordinators(
        {GROUP_OFFSETS_TOPIC: groups, TRANSACTION_STATE_TOPIC: transactions}
    )
    node = Node(
        local,
        acls=_acls(local, session),
        topics=topics,
        dynamic_configs=dynamic_configs,
        client_quotas=ClientQuotas(session),
        scram_users=ScramUsers(session, dynamic_configs),
        groups=groups,
        transactions=transactions,
        verifier=Verifier(local, tasks, peers, transactions, call_node),
        producer_ids=producer_ids,
        control=ControlRequests(local, replicator, coordinators, session, tasks.finish),
        controller=controller,
        replicator=replicator,
        tasks=tasks,
    )
    _add_gauges(local, controller)
    return node, Member(node, session, tasks, peers, client, coordinators)


def _add_gauges(local: LocalBroker, controller: ClusterController) -> None:
    sessions = local.fetch_sessions.slots
    local.metrics.add_gauges(
        {
            **replica_gauges(local.replicas),
            "active_controller_count": lambda: int(controller.is_active),
            "fetch_session_count": lambda: len(sessions.sessions),
            "fetch_session_partition_count": lambda: sessions.partition_count,
        }
    )
