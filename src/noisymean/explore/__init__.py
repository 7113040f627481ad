"""A local page with sliders: claimed, leaked and guaranteed as the settings move.

settings   what the page can be asked, as text: its address, its sliders, the command line that says the same
answers    what is computed for a question, piece by piece
workers    in other processes, each with a time limit, so that a slow question never holds up the page
components the page's parts
page       which part is filled by which answer
server     on this machine only
"""
