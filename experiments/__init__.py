"""The paper's experiments: every figure and table of its numerical section, one command each.

    python -m experiments.phase_transition --quick     # a minute
    python -m experiments.phase_transition --jobs 16   # the whole of it
    python -m experiments.plot                         # figures from the rows
    python -m experiments.page                         # tables of docs/evidence.md from the rows

Data, method and metric are three small files (``data``, ``methods``, ``metrics``); an experiment
lists its cells and names what is measured; ``runner`` runs them and writes one row per run.
"""
