"""From a frame to its handler: the table of APIs, decoding, authorization, the request log, and large requests.

Every request passes `dispatch`, which turns exceptions of handlers into responses. Knows no handler.
"""
