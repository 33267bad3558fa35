"""Keys, codes and commands that the name of their system announces, and what is beside the same words."""

from __future__ import annotations

import pytest

from ragtrace.text.personal_data import find_secrets
from tests.text.leaks import is_found_and_masked

SHARE = "q8vT3mZx0LkR7pWyB2nJ" + "d5HsCf9GaUe4iO6tX1rQzVw="
HEX = "9f3b7c1d5e8a2046b8d0f1e3c5a79614" + "28b6d4f0e2c8a19375b3d1f7e9c0a284"


@pytest.mark.parametrize(
    ("text", "item"),
    [
        # PINs and codes of doors, alarms and safes
        ("You can disarm the alarm with PIN 58213.", "58213"),
        ("Open the side door with code 7741.", "7741"),
        ("Die Alarmanlage wird mit dem Code 662910 ausgeschaltet.", "662910"),
        ("Ouvrez le portail avec le code 5082.", "5082"),
        ("La puerta del almacén se abre con el código 90317.", "90317"),
        ("Dörrkoden är 5521.", "5521"),
        ("The keypad by the dock takes the code 77120.", "77120"),
        ("Nobody is in: unlock the garage with 4471 please.", "4471"),
        ("The safe in the office opens with 88-12-43.", "88-12-43"),
        ("Dørkoden er 4478.", "4478"),
        ("Kod do bramy to 7719.", "7719"),
        ("Ovikoodi on 8823.", "8823"),
        ("Kód k alarmu je 55201.", "55201"),
        ("Enter PIN 48213377 on the safe.", "48213377"),
        # keys of authenticators
        ("Type the setup key by hand in the authenticator: KVKF KRCP NZQU YMLX", "KVKF KRCP NZQU YMLX"),
        ("Type the setup key KVKFKRCPNZQUYMLX into your authenticator app.", "KVKFKRCPNZQUYMLX"),
        ("Authenticator: manual entry key is M5XW6ZBAMJ4XIZLT.", "M5XW6ZBAMJ4XIZLT"),
        ("TOTP secret: NZXW45DPN4QHG2DV", "NZXW45DPN4QHG2DV"),
        ("Der Einrichtungsschlüssel für die Authenticator-App lautet ONSW G4TF OQ3G C43E.", "ONSW G4TF OQ3G C43E"),
        ("For 2FA use the secret key mfrg g3df mzta u2lk in the app.", "mfrg g3df mzta u2lk"),
        ("La clave secreta para el autenticador es MJQXGZJTGIQGI5DU.", "MJQXGZJTGIQGI5DU"),
        # licence keys
        ("Unser Lizenzschlüssel für die CAD-Software lautet CADX-7719-KLPW-3302-MMQA.", "CADX-7719-KLPW-3302-MMQA"),
        ("La clé de licence de notre entreprise pour l'éditeur est EDIT-4471-PQRS-9920.", "EDIT-4471-PQRS-9920"),
        ("La clave de licencia de la empresa es QWPL-8830-ZZTK-1194.", "QWPL-8830-ZZTK-1194"),
        ("Il codice di attivazione del nostro studio è STUD-22K9-LMPQ-7731.", "STUD-22K9-LMPQ-7731"),
        ("De licentiesleutel van ons kantoor is KANT-9931-QWER-2204.", "KANT-9931-QWER-2204"),
        ("Vår licensnyckel för programmet är PROG-7741-HHKL-9082.", "PROG-7741-HHKL-9082"),
        ("Klucz licencyjny firmy to FIRM-6628-KKLM-9914.", "FIRM-6628-KKLM-9914"),
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
        ("ssh root@10.0.0.5 and when prompted enter M4ple-Harbor!", "M4ple-Harbor!"),
        ("Verbinde dich per ssh; wenn er fragt, gib Dach&Stuhl77 ein.", "Dach&Stuhl77"),
        ("Connectez-vous en ssh ; quand le serveur le demande, tapez Gr1ve-Falaise!", "Gr1ve-Falaise!"),
        # keys of vaults
        (f"Unseal Key 1: {SHARE}", SHARE),
        (
            "The unseal key is 9f3b7c1d5e8a2046b8d0f1e3c5a7961428b6d4f0e2c8a19375b3d1f7e9c0a284.",
            "9f3b7c1d5e8a2046b8d0f1e3c5a7961428b6d4f0e2c8a19375b3d1f7e9c0a284",
        ),
        (
            "Unseal-Schlüssel 3: q8vT3mZx0LkR7pWyB2nJd5HsCf9GaUe4iO6tX1rQzVw=",
            "q8vT3mZx0LkR7pWyB2nJd5HsCf9GaUe4iO6tX1rQzVw=",
        ),
        (
            "Recovery Key 2 of 5: q8vT3mZx0LkR7pWyB2nJd5HsCf9GaUe4iO6tX1rQzVw=",
            "q8vT3mZx0LkR7pWyB2nJd5HsCf9GaUe4iO6tX1rQzVw=",
        ),
        # communities of SNMP
        ("SNMP community (read-only): n3tmon-ro", "n3tmon-ro"),
        ("snmp-server community w4tch-Tower RO", "w4tch-Tower"),
        ("SNMP: community string = n3tMon-blue", "n3tMon-blue"),
        ("The SNMP community of the printers is pr1nt-Kite.", "pr1nt-Kite"),
        ("rocommunity gr4yHeron 10.0.0.0/8 in snmpd.conf, for SNMP", "gr4yHeron"),
        ("snmpwalk -v2c -c s1lver-Fir 10.1.1.1", "s1lver-Fir"),
        ("Der SNMP-Community-String lautet bl4u-Specht.", "bl4u-Specht"),
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
        "Authenticator example: setup key JBSWY3DPEHPK3PXP",
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
