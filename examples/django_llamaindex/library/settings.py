"""Django's settings. There is no database: sessions are signed cookies."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SECRET_KEY", "only for trying it out")
DEBUG = "SECRET_KEY" not in os.environ
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost").split(",")
ROOT_URLCONF = "library.urls"
WSGI_APPLICATION = "library.wsgi.application"  # so that `runserver` starts ragtrace, too
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
TIME_ZONE = "UTC"
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
