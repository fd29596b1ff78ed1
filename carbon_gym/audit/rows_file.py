"""`audit.json`: what every comparison of an audit gave, which a rerun takes up again."""

from __future__ import annotations

from carbon_gym.reproduce.rows_file import ReproduceFile


class AuditFile(ReproduceFile):
    """Rows by case and policy; see `ReproduceFile`."""

    file_name, schema, kind = "audit.json", 1, "a file of rows of an audit"
