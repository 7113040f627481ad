"""Other libraries, each run in a process of its own and in an environment of its own.

environments  what each needs, with its versions; built once, in the cache
client        our side of the worker of an environment
ways          the ways in which each library is run, as things that can be probed
inside        the other side: what runs in the environment
"""
