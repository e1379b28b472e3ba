"""A broker without a socket, hosted replicas, slow disks."""
