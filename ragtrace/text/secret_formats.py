"""The table of secrets with a form of their own: what providers publish of their keys, tokens and links.

Each has a fixed prefix, then an alphabet and a length. Most need entropy as well, since an example
("sk-your-key-here") has the form, too. Forms were compared with the public rules of gitleaks (MIT) and Kingfisher
(Apache-2.0).
"""

from __future__ import annotations

from functools import partial

from ragtrace.text.announced_keys import is_otp_address, is_totp_key, session_cookies
from ragtrace.text.command_passwords import command_passwords
from ragtrace.text.item_checks import (
    has_key_text,
    is_basic_login,
    is_command_login,
    is_mixed,
    is_no_example,
    is_slack_token,
    is_slack_webhook,
    is_telegram_token,
    is_url_password,
)
from ragtrace.text.item_kinds import Kind, secret
from ragtrace.text.item_search import announces_no_example, is_named_secret

# An underscore may be beside a key, as in `user_ghp_…`.
_START, _END = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_BEGIN_KEY = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_WHOLE_KEY = (
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_BEGIN_CERTIFICATE = r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----"
_WHOLE_CERTIFICATE = (
    rf"{_BEGIN_CERTIFICATE}(?:\s|\\[nr])*[A-Za-z0-9+/=]{{4}}(?:[A-Za-z0-9+/=\s]|"
    rf"\\[nr])*(?:-----END (?:TRUSTED )?CERTIFICATE-----)?"
)
_KEY_START = rf"{_BEGIN_KEY}(?:\s|\\[nr])*[A-Za-z0-9+/=:,. -]{{1,4096}}"
_AWS = "AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9]"
_GITHUB = r"gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_\w{70,90}"
_GITLAB = "pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat"
_SQUARE = r"EAAA[\w-]{22,60}|sq0(?:atp|csp|idp)-[\w-]{22,43}"
_PREFIXES = (
    r"dop_v1_|glsa_|glc_|lin_api_|dp\.pt\.|PMAK-|rubygems_|sntrys_|sntryu_|tfp_|pul-|hvs\.|hvb\.|hvr\.|figd_|"
    r"shippo_(?:live|test)_|NRAK-|NRII-|NRJS-|EZ[AT]K|pscale_(?:tkn|pw|oauth)_|rdme_|ico-|dt0c01\.|age-secret-key-1|"
    r"ops_eyJ|secret_|key-|LTAI|AGE-SECRET-KEY-1|CLOJARS_|duffel_(?:live|test)_|fio-u-|flb_live_|(?<![A-Za-z]_)live_|r8_|"
    r"xai-|gsk_|pplx-|sgp_|ATATT3|ATCTT3|ATBB|cio_|nfp_|vault:v\d:|whsec_|rzp_live_|sk_prod_|FLWSECK_(?:TEST|PROD)-|"
    r"dckr_[po]at_|dp\.(?:ct|st|sa|scim|audit)\.|sq[pua]_|sbp_|tskey-|ya29\.|tvly-|tkn\.v1_|bkua_|ak_live_|aio_|odt_|"
    r"sm_[ps]at_|cmVmd|AKCp|csk-|fw_|nvapi-|sk_[a-f0-9]{8}|lsv2_(?:pt|sk)_|pcsk_|jina_|apify_api_|e2b_|fc-|"
    r"SSWS |GR1348941|NF-|oy2|EAA[MC](?=[A-Za-z0-9]{40})"
)
_ANY_KEY = "sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|ASIA|AIza|hf|npm"
_JWT = r"(?<![A-Za-z0-9-])ey[A-Za-z0-9_-]{12,2000}\.ey[A-Za-z0-9_/\\-]{10,4000}\.[A-Za-z0-9_/\\-]{10,2000}"
_WINDOWS = "[BCDFGHJKMNPQRTVWXY2346789]{5}"
_URL_PASSWORD = r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,80}:[^\s:/@<>{}$*\[\]]{3,80}@[\w.-]{1,100}"
_SLACK = r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,60}"
_WEBHOOKS = (
    r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{15,21}/[\w-]{40,90}"
    r"|webhook\.office\.com/webhookb2/[\w@-]{36,90}/IncomingWebhook/[\w/-]{36,90}"
    r"|hooks\.zapier\.com/hooks/catch/\d{4,12}/\w{5,12}"
    r"|chat\.googleapis\.com/v1/spaces/[\w-]{8,20}/messages\?key=[\w&=%-]{40,160}"
)
_AZURE_SIGNED = r"APIM|ACDb|\+(?:ABa|AMC|ASt|AEh|ARm)|AzCa|AzFu|AzIo|AzSe"
_AZURE_MARKS = "Q~ Key= key= KEY= Key: key: Value= ture= AZDO AzCa AzFu AzIo AzSe APIM ACDb +A"
_AZURE = (
    r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"
    r"|(?i:(?:account|shared ?access|access|storage|primary|secondary)_?key|sharedsecretvalue|sharedaccesssignature)"
    r"\s?[=:]\s?[\"']?[A-Za-z0-9+/]{38,100}={0,2}"
    rf"|(?<![\w+/])[A-Za-z0-9+/]{{33,76}}(?:{_AZURE_SIGNED})[A-Za-z0-9+/]{{4,8}}={{0,2}}(?![\w+/=])"
    rf"|{_START}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}"
)
_TELEGRAM = r"(?:(?<![\w:])|(?<=bot))\d{8,10}:[\w-]{33,36}(?![\w-])"
_DISCORD_TOKEN = r"(?<![\w.-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])"
_BASIC_LOGIN = r"(?i)\bbasic\s[A-Za-z0-9+/]{8,200}={0,2}(?![\w+/=])"
_COMMAND_LOGIN = r"(?<=[\s\"'`])(?:-u|--user)[ =][\"']?[\w.@\\-]{1,60}:[^\s\"'`:$<{]{3,80}"
_SETUP_KEY = (
    r"(?i:authenticator|\b(?:totp|otp|2fa|mfa)\b)[^\n]{0,60}?[\s:=\"'`*(]"
    r"(?P<value>[A-Z2-7]{16,64}|(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{4})={0,6}(?!\w)"
)
_OTP_ADDRESS = r"otpauth://[a-z]{4}/[^\s\"'<>]{1,200}"

SECRET_KINDS: tuple[Kind, ...] = (
    secret("private_key", _KEY_START, has_key_text, "PRIVATE KEY", "[private_key]"),
    secret("private_key", _WHOLE_KEY, None, "PRIVATE KEY", "[private_key]", reported=False),
    # A certificate is public. It names people and hosts, so masks hide it.
    secret("certificate", _WHOLE_CERTIFICATE, None, "CERTIFICATE", "[certificate]", reported=False),
    secret("openai_key", r"(?<![A-Za-z0-9-])sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,180}(?![\w-])", 3.5, "sk-"),
    secret("anthropic_key", r"(?<![A-Za-z0-9-])sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{80,120}(?![\w-])", None, "sk-ant-"),
    secret("h2o_key", r"(?i)(?<![A-Za-z0-9-])(?:sk|pk)-h2o-[A-Za-z0-9_-]{16,80}(?![\w-])", 3.0, "h2o- H2O- H2o- h2O-"),
    secret("aws_key_id", rf"(?<![A-Z0-9])(?:{_AWS})[A-Z2-7]{{16}}(?![A-Z0-9])", 3.0, "AKIA ASIA ABIA ACCA A3T"),
    secret("azure_key", _AZURE, 3.5, _AZURE_MARKS, parts="long_words"),
    secret("azure_sas", r"(?<=[?&;])sig=[A-Za-z0-9%+/]{38,80}={0,2}", 3.5, "sig="),
    secret("github_token", rf"{_START}(?:{_GITHUB}){_END}", 3.0, "gh github_"),
    secret("gitlab_token", rf"{_START}gl(?:{_GITLAB})-[\w-]{{20,300}}(?:\.[0-9a-z]{{9}})?(?![\w-])", 3.0, "gl"),
    secret("slack_token", rf"{_START}xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{{10,250}}", is_slack_token, "xox"),
    secret("slack_webhook", _SLACK, is_slack_webhook, "hooks.slack.com/", "[webhook]"),
    secret("slack_webhook", _SLACK, None, "hooks.slack.com/", "[webhook]", reported=False),
    secret("webhook", _WEBHOOKS, is_no_example, "hooks webhook chat.googleapis", "[webhook]"),
    secret("webhook", _WEBHOOKS, None, "hooks webhook chat.googleapis", "[webhook]", reported=False),
    secret("google_key", r"(?<![A-Za-z0-9-])AIza[\w-]{35}(?![\w-])", 4.0, "AIza"),
    secret("google_secret", r"(?<![A-Za-z0-9-])GOCSPX-[\w-]{28}(?![\w-])", 3.0, "GOCSPX-"),
    secret("stripe_key", rf"{_START}(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{{10,99}}{_END}", 2.5, "sk_ rk_"),
    secret("huggingface_token", rf"{_START}(?:hf_|api_org_)[A-Za-z]{{34}}{_END}", 3.0, "hf_ api_org_"),
    secret("npm_token", rf"{_START}npm_[A-Za-z0-9]{{36}}{_END}", 3.0, "npm_"),
    secret("pypi_token", r"pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}", None, "pypi-AgEI"),
    secret("sendgrid_key", r"(?<![\w.])SG\.[\w-]{16,32}\.[\w-]{32,64}(?![\w-])", 3.0, "SG."),
    secret("twilio_key", rf"{_START}(?:SK|AC)[0-9a-fA-F]{{32}}{_END}", 3.0, "SK AC"),
    secret("telegram_token", _TELEGRAM, is_telegram_token, ":A", parts="long_words"),
    secret("discord_token", _DISCORD_TOKEN, 4.0, parts="long_words"),
    secret("digitalocean_token", rf"{_START}do[opr]_v1_[a-f0-9]{{64}}{_END}", 3.0, "_v1_"),
    secret("shopify_token", rf"{_START}shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}{_END}", 2.5, "shp"),
    secret("square_token", rf"{_START}(?:{_SQUARE})(?![\w-])", 3.0, "EAAA sq0"),
    secret("mailgun_key", rf"{_START}[a-f0-9]{{32}}-[a-f0-9]{{8}}-[a-f0-9]{{8}}{_END}", 3.0, parts="long_words"),
    secret("mailchimp_key", rf"{_START}[a-f0-9]{{32}}-us\d{{1,2}}{_END}", 3.0, "-us"),
    secret(
        "prefixed_token",
        rf"(?<![A-Za-z0-9-])(?:{_PREFIXES})[A-Za-z0-9_./+-]{{16,250}}={{0,2}}",
        is_mixed,
        parts="long_words",
    ),
    secret("api_key", rf"\b(?:{_ANY_KEY})[-_]?[A-Za-z0-9_\-]{{16,200}}", None, parts="long_words", reported=False),
    secret("jwt", _JWT, None, ".ey", "[jwt]"),
    secret("jwt", r"\beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{0,1000}", None, "eyJ", "[jwt]", reported=False),
    secret("windows_key", rf"(?<![A-Za-z0-9-])(?:{_WINDOWS}-){{4}}{_WINDOWS}(?![\w-])", 2.5, "", "[product_key]",
           parts="long_words", context=announces_no_example),
    secret("windows_key", rf"(?<![A-Za-z0-9-])(?:{_WINDOWS}-){{4}}{_WINDOWS}(?![\w-])", None, "", "[product_key]",
           parts="long_words", reported=False),
    secret("url_password", _URL_PASSWORD, is_url_password, "://", "[url_password]"),
    secret("basic_login", _BASIC_LOGIN, is_basic_login, "asic ASIC", "[password]"),
    secret("command_login", _COMMAND_LOGIN, is_command_login, "-u --user", "[password]"),
    secret("command_login", _COMMAND_LOGIN, None, "-u --user", "[password]", reported=False),
    secret("password_hash", r"\$(?:2[abxy]?|[156y]|argon2(?:id|[id]))\$[^\s\"'`]{8,400}", None, "$", "[password_hash]",
           reported=False),
    Kind("secret", "assigned_secret", "[secret]", search=command_passwords),
    Kind("secret", "assigned_secret", "[secret]", search=session_cookies),
    secret("otp_secret", _OTP_ADDRESS, is_otp_address, "otpauth://", "[otp]"),
    secret("otp_secret", _OTP_ADDRESS, is_no_example, "otpauth://", "[otp]", reported=False),
    secret("otp_secret", _SETUP_KEY, is_totp_key, "thenticat TOTP OTP otp 2FA MFA", "[otp]"),
)  # fmt: skip
"""All secrets with a form. Where two overlap, the first one is reported, and its placeholder is shown."""

NAMED_SECRET = secret(
    "named_secret",
    r"(?<![A-Za-z0-9+/])[A-Za-z0-9][A-Za-z0-9+/_.!@#$%^&*-]{13,400}={0,2}",
    partial(is_mixed, bits=2.9),
    "",
    "[secret]",
    parts="long_words",
    context=is_named_secret,
    reported=False,
)
"""A random word behind any secret's name. It is only masked: some are identifiers."""
