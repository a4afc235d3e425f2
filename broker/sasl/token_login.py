"""How this broker logs in to others by OAUTHBEARER: where its tokens come from."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from .. import slow_reads
from ..runtime import Runtime
from ..settings.declaration import ConfigError
from ..settings.sasl import ENDPOINT_LOGIN_HANDLER, JAAS, LOGIN_HANDLER, ListenerSasl
from ..slow_reads import SlowReads
from ..tokens import unsecured
from ..tokens.fetch import file_in, parse_url
from ..tokens.token_file import BadTokenFile, read_token, user_in
from .client import Credentials, ServerRefused
from .client_oauthbearer import OAuthBearerClient
from .oauthbearer import NAME, is_extension
from .token_offers import check_allowed

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"


class TokenSource(NamedTuple):
    """Where a client's own tokens come from."""

    user: str
    new_token: Callable[[], str]
    """Returns a token for one login.  May block.  Raises: ServerRefused."""
    extensions: Mapping[str, str]

    def begin(self) -> OAuthBearerClient:
        """Begin a login.  May block.  Raises: ServerRefused."""
        return OAuthBearerClient(self.new_token(), self.extensions)

    def credentials(self, reads: SlowReads) -> Credentials:
        """The same for connections to brokers, without blocking the loop."""

        async def begin() -> OAuthBearerClient:
            try:
                return await reads(self.begin)
            except TimeoutError:
                raise ServerRefused(
                    f"gets no login: there is no token within {slow_reads.TIMEOUT_S:g} s"
                ) from None

        return Credentials(NAME, self.user, begin)


def token_credentials(
    given: ListenerSasl, options: Mapping[str, str] | None, runtime: Runtime
) -> Credentials:
    """The credentials for a listener; `options` are its login module's.  Raises: ConfigError."""
    if given.of_mechanism(NAME, LOGIN_HANDLER) == ENDPOINT_LOGIN_HANDLER:
        return _from_url(given, options or {}, runtime)
    if given.of_mechanism(NAME, TOKEN_URL):
        raise ConfigError(
            f"{given.name_of(TOKEN_URL, NAME)} has no effect on unsecured tokens: set "
            f"{given.own_name(LOGIN_HANDLER, NAME)} to {ENDPOINT_LOGIN_HANDLER}"
        )
    try:
        source = unsecured_source(options or {}, runtime.clock.wall_ms)
    except unsecured.BadOption as error:
        raise ConfigError(
            f"this broker cannot log in to others on the listener {given.listener_name}: "
            f"{given.name_of(JAAS, NAME)}: {error}; or set {given.name_of(LOGIN_HANDLER, NAME)} to "
            f"{ENDPOINT_LOGIN_HANDLER}, and {TOKEN_URL} to a token endpoint, or a file with a token"
        ) from None
    return source.credentials(SlowReads(runtime))


def unsecured_source(options: Mapping[str, str], wall_ms: Callable[[], int]) -> TokenSource:
    """Tokens that nobody signs, as the options of a login module say.

    Raises: unsecured.BadOption.
    """
    login = unsecured.Login.of(options)
    for name, value in login.extensions.items():
        if not is_extension(name, value):
            raise unsecured.BadOption(f"unsecuredLoginExtension_{name} is not allowed")
    return TokenSource(login.user, lambda: login.token(wall_ms()), login.extensions)


def file_source(path: str, user_claim: str = "sub") -> TokenSource:
    """The token in a file, which is read for each login.  Raises: BadTokenFile."""

    def new_token() -> str:
        try:
            return read_token(path)
        except BadTokenFile as error:
            raise ServerRefused(f"gets no login: {error}") from None

    return TokenSource(user_in(read_token(path), user_claim), new_token, {})


def _from_url(given: ListenerSasl, options: Mapping[str, str], runtime: Runtime) -> Credentials:
    text, name = given.of_mechanism(NAME, TOKEN_URL) or "", given.name_of(TOKEN_URL, NAME)
    try:
        url = parse_url(text)
    except ValueError:
        said = "" if "@" in text else f"={text}"  # it may have a password
        raise ConfigError(
            f"{name}{said} must be the URL of a token endpoint (https or http) or of a file with "
            f"a token (file:///PATH), for the listener {given.listener_name}"
        ) from None
    if url.scheme == "file":
        return _from_file(given, text, name).credentials(SlowReads(runtime))
    from .endpoint_login import endpoint_credentials

    return endpoint_credentials(given, options, url, runtime)


def _from_file(given: ListenerSasl, text: str, name: str) -> TokenSource:
    check_allowed(given, name, text)
    claim: str = given.of_mechanism(NAME, "sasl.oauthbearer.sub.claim.name")
    path = file_in(text)
    assert path is not None
    try:
        return file_source(path, claim)
    except BadTokenFile as error:
        raise ConfigError(f"{name}={text}: {error}") from None
