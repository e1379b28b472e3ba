"""Hosts, disks, raw sockets and watches that several rooms of tests use."""
