"""The web application over the store: pages and an API, for people who review chat logs.

Needs the extra `serve`. `app.create_app` puts it together, `access` says who may do what, `pages` draws, `api` answers.
"""
