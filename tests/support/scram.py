"""The client's side of SCRAM."""

from base64 import b64encode

from odradek.broker.sasl import scram
from odradek.broker.sasl.scram_messages import ClientFirst, ServerFirst, client_final_bare


def answer_to(
    mechanism: scram.Mechanism, first: ClientFirst, found: ServerFirst, password: str
) -> tuple[bytes, bytes, bytes]:
    """A client's final message, the salted password, and what was signed."""
    salted = scram.salted_password(
        mechanism, password, salt=found.salt, iterations=found.iterations
    )
    bare = client_final_bare(found.nonce)
    signed = scram.auth_message(first.bare, found.text, bare)
    proof = scram.client_proof(mechanism, salted, signed)
    return f"{bare},p=".encode() + b64encode(proof), salted, signed
