"""What all commands of Ottla's face share.

`options` declares the flags that every command takes, `session` runs a command against a cluster and maps its end to
an exit code, `output` prints rows in every format, `profiles` reads named clusters, `names` completes topics and
groups, `progress` shows how far a long operation is.

The contract, for every command:

- stdout holds data only: a table on a terminal, tab-separated rows in a pipe, or one document. stderr holds the rest.
- Exit codes: 0; 1 if the cluster or any item failed; 2 for wrong usage; 130 after Ctrl-C.
- What loses data asks first, and refuses where nobody can answer, unless `--yes` is given. `--dry-run` changes nothing.
- No secret is taken from the command line.
"""
