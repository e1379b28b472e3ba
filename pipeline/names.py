"""Names of columns in Spark's SQL."""


def quoted(name: str) -> str:
    """A name as Spark's SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
