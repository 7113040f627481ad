"""What can be run, to be audited or probed, beside `audit` and `probe`, which know nothing else of it.

protocol         the one description: a `Runnable` on any records, a `Target` on a pair of datasets
registry         everything by its name, imported when it is asked for; entry: from what the caller has
synthetic        mechanisms written out             functions    a user's functions of gradients
opacus           releases of Opacus                 optimizers   a caller's engines and optimizers
on_pair          any of these on a pair             callable_    a user's function with datasets of its own
records          gradients of the two datasets      claims       the curve that is claimed
files, foreign   code of the user's, and how it is run without harm
plain            frozen values as plain data
"""
