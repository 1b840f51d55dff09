"""A certificate authority, and the certificate that all processes of a test show each other."""

import datetime as dt
import ipaddress
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class TLS(NamedTuple):
    """Files of an authority and of one certificate that it signed."""

    authority: str
    certificate: str
    key: str

    def options(self):
        """Return the options of ``dask scheduler`` and ``dask worker``."""
        return ["--tls-ca-file", self.authority, "--tls-cert", self.certificate, "--tls-key", self.key]


def make_tls(folder, host="127.0.0.1"):
    """Make an authority and a certificate for one host, in files."""

    def name(of):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, of)])

    def signed(of, key, by, alternatives):
        now = dt.datetime.now(dt.UTC)
        issuer, signer, is_authority = by
        return (
            x509.CertificateBuilder()
            .subject_name(name(of))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(signer, hashes.SHA256())
        )

    def write(file, content):
        (folder / file).write_bytes(content)
        return str(folder / file)

    own, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = signed("authority", own, ("authority", own, True), [x509.DNSName("authority")])
    certificate = signed(
        host, theirs, ("authority", own, False), [x509.IPAddress(ipaddress.ip_address(host))]
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return TLS(
        write("authority.pem", authority.public_bytes(pem)),
        write("certificate.pem", certificate.public_bytes(pem)),
        write("key.pem", theirs.private_bytes(pem, *plain)),
    )
