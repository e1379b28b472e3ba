"""The controller: one task that handles one event after the other. Nothing else writes the controller's znodes.

`active` decides with pure modules, `actions` and `store` write under the fence of the controller's epoch, and
`broker_queues` sends the result to every broker, this one included. Every request gets a response.
"""
