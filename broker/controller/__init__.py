"""The controller: one task, one event after the other, and nothing else writes its znodes.

`active` decides with pure modules, `actions` and `store` write under the fence of the controller's epoch, and
`broker_queues` sends the result to every broker, this one included. Every request to it is answered.
"""
