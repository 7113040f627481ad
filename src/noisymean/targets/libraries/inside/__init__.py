"""What runs in the environment of a library: nothing is imported here but numpy, that library, and our own `processes`.

worker               sessions: rounds on batches that are drawn here, or on those that the library draws
way                  what a module of a library gives to the worker
optax_, objax_, …    one for each library: its ways, and what its own accounting says
"""
