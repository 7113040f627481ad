"""Facts about source code, for the pitfalls that reading can tell of.

bindings   names that are given a value once, and numbers that are written down: the only ones that are believed
follow     one call of make_private, followed to the loops that train on what it returned
loops      those loops: one new batch, one step, nothing else
surroundings what stands around them: errors that are swallowed, derivatives by hand
losses     what they propagate back: known to be a mean over the batch, or not
sites      the calls of a file, each as far as it is followed
randomness where their noise comes from
opacus     what such a call shows of each pitfall
by_hand    optimizers of Opacus that are made without it
own        what steps of one's own and other libraries show
text       what is said around the training: delta, neighbours, losses that are shown, batch normalization
reader     all of it, over a tree

The linter says what is wrong; here is looked for what is right. Where that is not in view a pitfall is not passed, and the reason
says what was not followed.
"""
