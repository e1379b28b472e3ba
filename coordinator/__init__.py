"""The coordinator of groups, as pure decisions and a runtime for them. Knows no log, no zk, no broker."""
