"""DescribeUserScramCredentials (API key 50): which users can log in by SCRAM.

Source: DescribeUserScramCredentialsRequest.json, DescribeUserScramCredentialsResponse.json of
Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int8, int16, int32, string


class UserName(Struct):
    """A user to describe."""

    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """The users to describe; null or empty: all."""

    users: list[UserName] | None = array(UserName, "0+", nullable="0+")


class CredentialInfo(Struct):
    """A mechanism for which a user has a credential."""

    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    """One user."""

    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    """One result for each user."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(
        DescribeUserScramCredentialsResult, "0+"
    )
