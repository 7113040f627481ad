"""Opacus, any release of it, driven in a process of its own.

releases  the 26 releases: what each samples, divides by and offers
install   one of them -> a cache folder, without its dependencies, whole or not there
setup     what is to be run, as values that travel as JSON
client    our side: starts the worker (`targets.processes`), asks, hands out arrays
worker    the other side: imports that release with its shims, and answers
shims     what each release lacks on today's torch, by name
drivers   the release's own engine or optimizer, fed and recorded
"""
