"""Keys, codes and commands that the name of their system announces, and what is beside the same words."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.find import find_secrets
from tests.text.leaks import is_found_and_masked

SHARE = "q8vT3mZx0LkR7pWyB2nJ" + "d5HsCf9GaUe4iO6tX1rQzVw="
HEX = "9f3b7c1d5e8a2046b8d0f1e3c5a79614" + "28b6d4f0e2c8a19375b3d1f7e9c0a284"


@pytest.mark.parametrize(
    ("text", "item"),
    [
        # PINs and codes of doors, alarms and safes
        # keys of authenticators
        ("Type the setup key by hand in the authenticator: KVKF KRCP NZQU YMLX", "KVKF KRCP NZQU YMLX"),
        ("Authenticator: manual entry key is M5XW6ZBAMJ4XIZLT.", "M5XW6ZBAMJ4XIZLT"),
        ("TOTP secret: NZXW45DPN4QHG2DV", "NZXW45DPN4QHG2DV"),
        ("Der Einrichtungsschlüssel für die Authenticator-App lautet ONSW G4TF OQ3G C43E.", "ONSW G4TF OQ3G C43E"),
        # licence keys
        ("La clave de licencia de la empresa es QWPL-8830-ZZTK-1194.", "QWPL-8830-ZZTK-1194"),
        # cookies of sessions
        ("Cookie: PHPSESSID=k8q2m4n6p0r1s3t5v7w9x2y4z6", "k8q2m4n6p0r1s3t5v7w9x2y4z6"),
        ("The cookie JSESSIONID is 8F2A6C1D9E4B7730A5C2E8F1B6D40937.", "8F2A6C1D9E4B7730A5C2E8F1B6D40937"),
        ("Set-Cookie: ASP.NET_SessionId=qz4kxw2m1vbn5t0yhl3cjr8d; path=/", "qz4kxw2m1vbn5t0yhl3cjr8d"),
        ("connect.sid=s%3AkT9xQ2vLm4Rz7WpYc1Nb8Hd6.Jf3Sg5Ua0Ei", "s%3AkT9xQ2vLm4Rz7WpYc1Nb8Hd6.Jf3Sg5Ua0Ei"),
        ("sessionid=x7k2m9qp4w8v1z6t3r5y0b", "x7k2m9qp4w8v1z6t3r5y0b"),
        ("https://shop.acme.io/cart;jsessionid=4D7A1E9C2B8F60A35E1C7D94F2B86A03", "4D7A1E9C2B8F60A35E1C7D94F2B86A03"),
        # commands, and what is typed at their prompts
        ("plink -ssh -l admin -pw Gr4nite!Fox core-sw1", "Gr4nite!Fox"),
        ("pscp -pw kettle-91Q file.txt admin@host:/tmp", "kettle-91Q"),
        ("net use \\\\srv02\\data Plum&Nettle7 /user:CORP\\scan", "Plum&Nettle7"),
        ("net use Y: \\\\srv02\\data /user:scan Plum&Nettle7", "Plum&Nettle7"),
        ("docker login -u builder -p mossy-Otter88 registry.acme.io", "mossy-Otter88"),
        ("psexec \\\\ws17 -u CORP\\ops -p Vine&Slate5 cmd", "Vine&Slate5"),
        ("redis-cli -h cache -a t4rn-Swift-oak ping", "t4rn-Swift-oak"),
        ('sqlcmd -S db1 -U sa -P Basalt!Wren6 -Q "select 1"', "Basalt!Wren6"),
        ("ldapsearch -D cn=admin -w Larch_Pike31 -b dc=acme", "Larch_Pike31"),
        ("smbclient //srv/share -U scan%Heath&Moss4", "Heath&Moss4"),
        ("openssl rsa -in k.pem -passin pass:Quartz-Lark9", "Quartz-Lark9"),
        ("mysqldump -u root -pWillow!Crane2 shop", "Willow!Crane2"),
        # keys of vaults
        (
            "The unseal key is 9f3b7c1d5e8a2046b8d0f1e3c5a7961428b6d4f0e2c8a19375b3d1f7e9c0a284.",
            "9f3b7c1d5e8a2046b8d0f1e3c5a7961428b6d4f0e2c8a19375b3d1f7e9c0a284",
        ),
        # communities of SNMP
    ],
)
def test_an_announced_key_is_found_and_masked(text: str, item: str) -> None:
    """The value is reported, and the mask hides all of it."""
    assert is_found_and_masked(text, item)


@pytest.mark.parametrize(
    "text",
    [
        # PINs and codes of doors, alarms and safes
        "The panel shows alarm with code 4417 means low battery.",
        "with code 2021 of the building regulations for the door",
        "The gate opens with 4471 guests.",
        "Met code 1500 op de factuur gaat de deur dicht voor fraude",
        "Use code 20256 for a discount at the door.",
        "Open the ticket with code 4417.",
        "The door has fault code 4417.",
        "Replace the lock with part 44173.",
        "Enter the PIN with 4 digits at the door.",
        "The gate closed with error code 5521.",
        "Garage with 5521 spaces, code 2021 of practice.",
        "Art. 1544 of the building code 2021.",
        # keys of authenticators
        "Open the authenticator and tap the setup key button.",
        "The setup key consists of 16 Base32 characters, A-Z and 2-7.",
        "The secret key for the authenticator is shown once.",
        "Type this code into that app when your authenticator asks.",
        "The 2FA code is sent by SMS; setup code words like that must have four.",
        # licence keys
        "A licence key looks like PDFE-####-AAAA.",
        "The license key is XXXX-0000-XXXX-0000.",
        "The product key sticker has the part number 22-41-77.",
        "Der Lizenzschlüssel ist an die Firma gebunden.",
        "La clé de licence est envoyée par e-mail le 2024-05-01.",
        "The licence key format is ABCD-1234-ABCD-1234.",
        "The product code of the pump is PMP-7731-KLQ-22.",
        # cookies of sessions
        "JSESSIONID=<your session>",
        "The PHPSESSID cookie is set for the domain.",
        "session_id=91c0b7d2-55ae-4c02-8d6f-1fe90a2b7c34",
        "sessionid=YOUR_SESSION_ID_HERE_PLEASE",
        "Set the session cookie with-secure-and-httponly flags.",
        "session_id: order-intake-flow-2024",
        "Session cookies live 30 minutes.",
        # commands, and what is typed at their prompts
        "plink -ssh admin@host -pw %PASSWORD%",
        "net use X: \\\\srv\\share * /user:CORP\\scan",
        "net use Z: \\\\srv\\share /persistent:yes",
        "docker login -u <username> -p <token>",
        "curl -u user:password https://x",
        "docker run -p 8080:80 nginx:1.25",
        "mysql -u root -p shop",
        "redis-cli -a $REDIS_PASS ping",
        "sqlcmd -S db1 -U sa -P $(SA_PASS1)",
        'curl -u "$USER:$PASS" https://x',
        "ssh -p 2222 admin@host",
        "when it asks for the server, type Vpn2.Acme.io",
        "ssh host, and if it asks, type yes.",
        "When the login asks for your user name, enter CORP\\Nora7.",
        # keys of vaults
        "The unseal key is split into 5 shares.",
        "Unseal Key 1: <base64 share>",
        "A recovery key: 64 hexadecimal digits",
        "Vault needs 3 of 5 unseal keys.",
        "Recovery key: see the safe in room 4",
        "unseal key: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx=",
        # communities of SNMP
        "snmp-server community public RO",
        "The SNMP community string is public.",
        "Our community is open24 hours.",
        "snmpwalk -v2c -c $COMMUNITY host",
        "SNMP: replace the community string by your own.",
        "snmpget -c COMMUNITY host",
        "The community manager for SNMP tools is team7-lead.",
        # samples and what is public
        "https://hooks.slack.com/services/T0000AAAA/B0000BBBB/000000000000000000000000",
        "https://hooks.slack.com/services/TXXXXXXXX/BXXXXXXXX/xxxxxxxxxxxxxxxxxxxxxxxx",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2k8",
        "-----BEGIN TRUSTED CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2k8",
        "otpauth://totp/App:user?secret=BASE32KEY&issuer=App",
        "otpauth://totp/App:user?secret=YOURSECRET",
        "otpauth://totp/{label}?secret={secret}",
    ],
)
def test_what_only_names_the_system_is_no_key(text: str) -> None:
    """Forms, samples, variables, defaults, faults and public values pass."""
    assert find_secrets(text) == []
