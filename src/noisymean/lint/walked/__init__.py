"""What a step does to its arrays, statement by statement: followed as far as it is understood, never run.

things    what is known of a value: gradients and their rows, noise and its scale, norms and what is made of them
sums      sums, products and quotients of these; where noise meets gradients, and gradients their bound
spelled   how libraries spell what is done to arrays
calls     what their functions give
loops     what a loop goes through: records, layers, rounds
frames    the names of a function
applied   functions that are called: those of the file are gone through
walker    statements
walk      all functions of a file
"""
