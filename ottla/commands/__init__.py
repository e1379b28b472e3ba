"""What the commands of `ottla` do, but for those of `scripts`: each module has one command and no option parsing.

`cli` imports these late, so that `ottla --help` loads no broker. `serving`, beside this room, runs a broker in this
process, because `embedded` needs it too.
"""
