"""What gunicorn and `runserver` serve: each process of the server imports this module, and so starts ragtrace."""

import os

from django.core.wsgi import get_wsgi_application

import ragtrace

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "library.settings")
ragtrace.init()  # with the settings of `ragtrace.toml`
application = get_wsgi_application()
