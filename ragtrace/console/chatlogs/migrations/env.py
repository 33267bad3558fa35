"""What Alembic runs: the migrations, on the connection that `migrating.upgrade` gives."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
# The transaction is the caller's.
context.run_migrations()
