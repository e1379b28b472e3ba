"""What clients and frameworks do with Ottla and with Apache Kafka, as a table: docs/compatibility.md.

`python -m compat_tests.compatibility` runs every feature with every client against each broker and writes the page.
`features` declares the rows, `clients` the columns, and `programs` has a driver for each client. A driver is a program
that answers calls, one line of JSON each, alike for all clients: a scenario is written once. `trials` runs scenarios,
`verdicts` decides what becomes of a cell, and `page` writes it.
"""
