"""The commands of `ottla` that are not in `scripts`: one module for each command, without option parsing.

`cli` imports these modules late, so `ottla --help` loads no broker. `serving`, which runs a broker in this process,
lies beside this room, because `embedded` calls it too.
"""
