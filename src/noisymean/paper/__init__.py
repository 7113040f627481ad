"""The reproduction: the paper's figures, table and theorems run again, and what they are run on.

    Figure 2, DELTA_1                 experiments.figure_2_delta          reproduce synthetic-delta
    Figure 3, DIMENSION               experiments.figure_3_dimension      reproduce synthetic-dimension
    Figure 4, IMPLEMENTATION          experiments.figure_4_methods        reproduce implementations
    Figure 5, Theoretical             experiments.figure_5_one_round      reproduce theory
    Figure 6, FEASGM_IMPLEMENTATION   experiments.figure_6_floor          reproduce opacus-feasgm
    Figure 7, FEASGM_Theoretical      experiments.figure_7_many_rounds    reproduce opacus-200-rounds
    Table 2, audited_libraries        experiments.table_2_releases        reproduce opacus-releases
    Theorems, lemmas, the corollary   theorems                            reproduce theorems
    Beyond the paper                  experiments.full_mnist              reproduce full-mnist

How an experiment is built, and run:

    rows           a table of plain values, with what selects from it
    statements     what the paper states, each with the criterion that decides whether rows agree
    experiment     rows, a picture of them, a finding, the statements; how much effort is made
    audits         an audit inside an experiment; panels: how trade-off curves are drawn side by side
    reproduction   experiments into a folder; saved_rows: what an earlier run left there; page: all of them as one page

What is run:

    methods, dpsur         the four published methods that the paper audits
    models, photographs    the networks that they train, on images
    data                   MNIST, Fashion-MNIST and CIFAR-10
"""
