"""The logins of a broker that starts: how others log in here, and whether it can log in there."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .config import Config
from .coordination.interface import Session
from .peers.security import Security
from .runtime import Runtime
from .sasl.credentials import ScramUsers
from .tasks import TaskSupervisor

if TYPE_CHECKING:
    from .sasl.login import Offer


async def make_offers(
    config: Config, scram_users: ScramUsers, session: Session, runtime: Runtime
) -> "dict[str, Offer]":
    """How clients log in, by the listeners on which they must.

    Raises: ConfigError, MalformedZnode.
    """
    ends = (*config.listener_endpoints, *config.private_endpoints)
    all_given = [(end.name, config.listener_sasl(end.name)) for end in ends]
    secured = [(name, given) for name, given in all_given if given is not None]
    if not secured:
        return {}
    from .member.scram_secret import scram_secret
    from .sasl.offers import make_offer, offers_scram

    needs_secret = any(offers_scram(given) for _, given in secured)
    of_cluster = await scram_secret(session, runtime.random_bytes) if needs_secret else b""
    offers = {}
    for name, given in secured:
        offers[name] = make_offer(given, scram_users, of_cluster, runtime)
        keys = offers[name].keys
        if keys is not None:
            await keys.read_first(name)
    return offers


async def check_own_logins(
    securities: Mapping[str, Security], offers: "Mapping[str, Offer]", tasks: TaskSupervisor
) -> None:
    """Check that other brokers, which know the same users, let this one log in now, and will.

    Raises: ConfigError.
    """
    for name, security in securities.items():
        credentials = security.credentials
        if credentials is not None:
            from .sasl.broker_credentials import check_credentials

            begin = offers[name].mechanisms[credentials.mechanism]
            await check_credentials(credentials, begin, name)
            if credentials.renew_forever is not None:
                tasks.spawn(credentials.renew_forever(), "renew the broker's token")
