"""Hosts, disks, raw sockets and watches for several rooms of tests."""
