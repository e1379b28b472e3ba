"""How tests run: how often random tests repeat, where seconds count, in which order and processes tests run, and what a
run of all tests reports.

`repetition`, `measuring`, `schedule` and `results` are plugins of pytest, named in `pyproject.toml`. `make test` runs
`__main__`.
"""
