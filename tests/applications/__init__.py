"""Real applications, each a process of its own: FastAPI, Django and Celery."""
