"""The scorecard of pitfalls, of whatever is handed over: files are read, an engine of Opacus is looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisymean.errors import InvalidInput
from noisymean.ordinary import is_there
from noisymean.scorecard.source.reader import check_source
from noisymean.scorecard.value import Scorecard


def check(subject: Any, *, exclude: Sequence[str] = (), **told: Any) -> Scorecard:
    """One line for each known pitfall of training with DP: passed, found, or not checkable here, with the reason.

    `subject` is a script, a notebook, a folder or a list of these, which is read and never run; `exclude` leaves out files or
    folders of it. Or it is an engine of Opacus, or the optimizer that make_private returned; then what else is `told` is for
    `noisymean.integrations.opacus.check`, above all `data_loader`, the one that make_private returned.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = pathlib.Path(folder, "train.py")
    ...     written = script.write_text("engine.make_private(data_loader=loader, poisson_sampling=False)")
    ...     card = check(script)
    >>> card["P06"].outcome.value, card["P06"].why
    ('found', 'train.py:1: NM003 poisson-sampling-off')
    """
    several = [subject] if isinstance(subject, str | os.PathLike) else subject
    if isinstance(several, list | tuple) and all(isinstance(one, str | os.PathLike) for one in several) and several:
        if told:
            name, value = next(iter(told.items()))
            raise InvalidInput(name, value, "left out for files", "it is for an engine or an optimizer of Opacus")
        paths = [Path(one) for one in several]
        for path in paths:
            if not is_there(path):
                raise InvalidInput("subject", str(path), "an existing file or folder", "check the spelling")
        return check_source(paths, ", ".join(path.as_posix() for path in paths), exclude=exclude)
    if exclude:
        raise InvalidInput("exclude", list(exclude), "left out for an engine", "it is for files")
    # nobody who only reads files needs torch
    from noisymean.integrations.opacus import check as of_engine

    return of_engine(subject, **told)
