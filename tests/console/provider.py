"""A small OpenID Connect provider: discovery, keys, authorization code with PKCE, ID tokens. Everybody is signed in
there; it is strict with its clients, and `wrong` makes it lie."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Form, Header, HTTPException, Request
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.responses import RedirectResponse

from tests.console.conftest import running

CLIENT, SECRET = "ragtrace", "a secret of the client that is long enough"


class Provider:
    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
        self.issuer = ""
        self.user: dict[str, Any] = {"sub": "u-1", "preferred_username": "olga", "groups": ["staff"]}
        self.algorithms = ["RS256"]
        self.wrong: dict[str, Any] = {}
        """Claims that are put in place of the right ones; `signature` is one of none, HS256 and other."""
        self.codes: dict[str, dict[str, str]] = {}
        self.app = self._made()

    def _made(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def description() -> dict[str, Any]:
            return {
                "issuer": self.wrong.get("described", self.issuer), "jwks_uri": self.issuer + "/keys",
                "authorization_endpoint": self.issuer + "/authorize", "token_endpoint": self.issuer + "/token",
                "id_token_signing_alg_values_supported": self.algorithms, "code_challenge_methods_supported": ["S256"],
            }  # fmt: skip

        @app.get("/keys")
        def keys() -> dict[str, Any]:
            return {"keys": [self.key.as_dict(private=False)]}

        @app.get("/authorize")
        def authorize(request: Request) -> RedirectResponse:
            asked = dict(request.query_params)
            expected = {"client_id": CLIENT, "response_type": "code", "code_challenge_method": "S256"}
            if not expected.items() <= asked.items() or "openid" not in asked["scope"].split():
                raise HTTPException(400)
            if len(asked["state"]) < 20 or len(asked["nonce"]) < 20 or len(asked["code_challenge"]) != 43:
                raise HTTPException(400)
            code = secrets.token_urlsafe(16)
            self.codes[code] = asked
            back = {"error": self.wrong["error"]} if "error" in self.wrong else {"code": code}
            return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({**back, 'state': asked['state']})}", 302)

        @app.post("/token")
        def token(
            grant_type: str = Form(), code: str = Form(), redirect_uri: str = Form(), code_verifier: str = Form(),
            authorization: str = Header(),
        ) -> dict[str, Any]:  # fmt: skip
            right = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            asked = self.codes.pop(code, None)
            challenge = _part(hashlib.sha256(code_verifier.encode()).digest())
            if grant_type != "authorization_code" or asked is None or authorization != f"Basic {right}":
                raise HTTPException(400)
            if asked["redirect_uri"] != redirect_uri or asked["code_challenge"] != challenge:
                raise HTTPException(400)
            answer = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60}
            if "no_id_token" in self.wrong:
                return answer
            return {**answer, "id_token": self._signed(asked["nonce"])}

        return app

    def _signed(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {k: v for k, v in {**claims, **self.user, **self.wrong}.items() if v is not None}
        how = self.wrong.get("signature")
        if how == "none":
            return ".".join((_part(b'{"alg":"none"}'), _part(json.dumps(claims).encode()), ""))
        if how == "HS256":  # signed with what everybody knows: the public key
            return jwt.encode({"alg": "HS256", "kid": "k1"}, claims, OctKey.import_key(self.key.as_pem(private=False)))
        key = RSAKey.generate_key(2048, {"kid": "k1"}) if how == "other" else self.key
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, key)


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def provided() -> Iterator[Provider]:
    made = Provider()
    with running(uvicorn.Config(made.app, port=0, log_config=None, lifespan="off", ws="none")) as made.issuer:
        yield made
