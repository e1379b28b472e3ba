"""The features of clients and frameworks with Ottla and with Apache Kafka, as a page: docs/compatibility.md.

`python -m compat_tests.compatibility` runs every feature with every client against each broker and writes the page.
`features` declares the rows, `clients` the columns, and `programs` has a driver for each client. A driver is a program
that answers calls, one line of JSON each. The calls are the same for all clients, so that a scenario is written once.
`trials` runs scenarios, `verdicts` makes cells of outcomes, and `page` writes the page.
"""
