"""The login between brokers of one process, which no user has to set.

Their private listener is on loopback, where other users of the machine could connect and be taken
for a broker. So could a controller of another cluster by mistake: it goes on sending requests to a
port of a broker that was killed, and that port may be this listener's by now. A password that only
these brokers know guards it.
"""

from typing import Final

from odradek.jaas import jaas_text

from .declaration import Value
from .sasl import ENABLED, JAAS, ListenerSasl

MECHANISM: Final = "PLAIN"


def private_login(listener_name: str, password: str) -> ListenerSasl:
    """The settings of SASL of the private listener."""
    user = listener_name
    options = {"username": user, "password": password, f"user_{user}": password}
    prefix = f"listener.name.{listener_name.lower()}"
    given: dict[str, Value] = {
        f"{prefix}.{ENABLED}": (MECHANISM,),
        f"{prefix}.{MECHANISM.lower()}.{JAAS}": jaas_text(MECHANISM, **options),
    }
    return ListenerSasl(listener_name, given)
