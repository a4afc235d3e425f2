"""The ciphers of `password_encoder`, by the package cryptography of the extra `tls`."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7


class Cbc:
    """AES/CBC/PKCS5Padding, which with the blocks of AES is PKCS7."""

    @staticmethod
    def encrypted(key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Encrypt."""
        padder, encryptor = PKCS7(AES.block_size).padder(), Cipher(AES(key), CBC(iv)).encryptor()
        padded = padder.update(plain) + padder.finalize()
        return encryptor.update(padded) + encryptor.finalize()

    @staticmethod
    def decrypted(key: bytes, iv: bytes, encrypted: bytes) -> bytes:
        """Decrypt.  Raises: ValueError."""
        unpadder = PKCS7(AES.block_size).unpadder()
        decryptor = Cipher(AES(key), CBC(iv)).decryptor()
        padded = decryptor.update(encrypted) + decryptor.finalize()
        return unpadder.update(padded) + unpadder.finalize()


class Gcm:
    """AES/GCM/NoPadding."""

    @staticmethod
    def encrypted(key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Encrypt."""
        return AESGCM(key).encrypt(iv, plain, None)

    @staticmethod
    def decrypted(key: bytes, iv: bytes, encrypted: bytes) -> bytes:
        """Decrypt.  Raises: ValueError."""
        try:
            return AESGCM(key).decrypt(iv, encrypted, None)
        except InvalidTag:
            raise ValueError from None
