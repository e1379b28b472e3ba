"""Groups and transactions as pure decisions. Knows no log, no zk, no broker."""
