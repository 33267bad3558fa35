"""The tables of the first release. A new store gets the tables of `schema` at once and runs no migration."""

revision = "0005"
down_revision = None


def upgrade() -> None:
    """Do nothing: no store of a release is older."""
