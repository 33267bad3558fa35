"""Django's command line: `python manage.py runserver`."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "library.settings")
    execute_from_command_line(sys.argv)
