"""How the tests are run: how often what is random repeats itself, where seconds count, in which order and beside what
tests run, and what a run of all of them ends with.

`repetition`, `measuring`, `schedule` and `results` are plugins of pytest, named in `pyproject.toml`. `make test` runs
`__main__`.
"""
