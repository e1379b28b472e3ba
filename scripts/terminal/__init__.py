"""The parts that all commands of Ottla's face share.

`options` declares the common flags, `session` runs a command against a cluster and maps its end to an exit code,
`output` prints rows in all formats, `profiles` reads named clusters, `names` completes topics and groups, `progress`
shows the progress of a long operation.

The contract, for every command:

- stdout has data only: a table on a terminal, tab-separated rows in a pipe, or one document. stderr has the rest.
- Exit codes: 0; 1 if the cluster or any item failed; 2 for wrong usage; 130 after Ctrl-C.
- A command that loses data asks first, and fails without a terminal, unless `--yes` is given. `--dry-run` changes
  nothing.
- No secret is taken from the command line.
"""
