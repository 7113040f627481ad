"""Things that can be probed, each handed its records in its own way.

releases    a release of Opacus, in a process of its own
formulas    one of our mechanisms, written out; DPSUR
callables   a function of gradients; NAME in FILE.py
optimizers  an object of the caller's: an Opacus optimizer or engine, or a function that builds one for N records
"""
