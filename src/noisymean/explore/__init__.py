"""A local page with sliders: claimed, leaked and guaranteed as the settings move.

settings   what the page can be asked, as text: its address, its form, the command line that says the same
answers    what is computed for a question, piece by piece
workers    in other processes, each with a time limit, so that a slow question never holds up the page
shown      an answer as markup, and as the words of the tab and of the bar
exports    an answer as a file that says its settings
page       which address gives which answer
server     on this machine only
templates, assets  the page itself: its form, its look, its script
"""
