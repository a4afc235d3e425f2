"""How a replay connects: with TLS and a login, if the properties of the cluster say so."""

from typing import Any, Final

from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.client_login import HANDSHAKE_VERSION, ClientLogin, check_handshake
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest

from .client_sasl import OAUTHBEARER, is_librdkafkas
from .client_tls import TLS_PROPERTIES, tls_context
from .clients import CONNECT_TIMEOUT, Cluster
from .errors import CommandError
from .login import begin
from .replay_link import Link

AUTHENTICATE_VERSION: Final = 0  # later ones tell how long the login lasts
_USED: Final = ("bootstrap.servers", "security.protocol", CONNECT_TIMEOUT, *TLS_PROPERTIES)


class Dialer:
    """Opens connections to the brokers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises: CommandError."""
        for name in cluster.properties:
            if cluster.insists_on(name) and name not in _USED and not name.startswith("sasl."):
                raise cluster.told(name, "no such property for this command")
        self._properties = cluster.properties
        self._logs_in = cluster.properties.get("security.protocol", "").startswith("SASL")
        mechanism = cluster.properties.get("sasl.mechanism")
        if self._logs_in and mechanism == OAUTHBEARER and is_librdkafkas(cluster.properties):
            raise CommandError(
                "this command can't log in by OAUTHBEARER with tokens that librdkafka gets"
            )
        self._tls = tls_context(cluster.properties)

    async def open(self, host: str, port: int) -> Link:
        """Connect, and log in.  Raises: OSError, MalformedMessage."""
        link = await Link.open(host, port, self._tls)
        try:
            if self._logs_in:
                await self._log_in(link)
        except BaseException:
            await link.close()
            raise
        return link

    async def _log_in(self, link: Link) -> None:
        mechanism = self._properties["sasl.mechanism"]
        choice = SaslHandshakeRequest(mechanism=mechanism)
        chosen: Any = await link.ask_own(choice, HANDSHAKE_VERSION)
        try:
            check_handshake(mechanism, chosen.error_code, chosen.mechanisms)
            login = ClientLogin(begin(mechanism, self._properties))
            while not login.is_complete:
                request = SaslAuthenticateRequest(auth_bytes=login.token)
                answer: Any = await link.ask_own(request, AUTHENTICATE_VERSION)
                login.take(answer.error_code, answer.error_message, answer.auth_bytes)
        except ServerRefused as error:
            raise PermissionError(f"the broker {error}") from None
