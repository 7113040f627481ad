"""`noisymean demo`: three real trainings, what each claims and what it loses, why, and what the fix gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, final

from rich import box
from rich.console import Console
from rich.table import Table

from noisymean import __version__, account
from noisymean.cli import options
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say, write_plot
from noisymean.cli.tones import toned
from noisymean.mechanisms import ASGM, EASGM, SGM, Mechanism, OpacusLoader
from noisymean.report import account_words
from noisymean.report.ranges import Range
from noisymean.report.story import Loader, Story, Told
from noisymean.report.story_picture import story_figure
from noisymean.written import exactly, for_people

DELTA = 1e-5
FIGURE, SLIDE = "demo.png", "demo.pdf"

# The round numbers of Opacus' own examples.
LOADER = OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0)


@final
@dataclass(frozen=True)
class Training:
    """One run as people know it: its name, how its users speak of its batches, what runs and for how many steps."""

    title: str
    typed: str
    mechanism: Mechanism
    steps: int

    def told(self) -> Told:
        """The run, and the same run at a rate and with a denominator that no record moves."""
        constants = SGM(sample_rate=self.mechanism.rate, noise_multiplier=self.mechanism.noise_multiplier)
        as_run, mended = (account(one, steps=self.steps, delta=DELTA) for one in (self.mechanism, constants))
        return Told(self.title, self.typed, as_run, mended)


# A network for digits in a data loader of Opacus 1.x; a diffusion model of the paper, at its rate and noise; a transformer in a
# loop of one's own that takes the mean of each batch.
TRAININGS = (
    Training("MNIST CNN, Opacus 1.x", "batches of 600, σ = 1, 10 epochs", LOADER, 1_000),
    Training(
        "DP-FETA, diffusion",
        "batches of N·q = 300, σ = 10, 100 epochs",
        EASGM(dataset_size=60_000, dimension=1_485_217, sample_rate="1/200", noise_multiplier=10.0),
        20_000,
    ),
    Training(
        "ViT-B/16, batch mean",
        "batches of about 1,000, σ = 1, 10 epochs",
        ASGM(dataset_size=50_000, dimension=85_806_346, sample_rate="1/50", noise_multiplier=1.0),
        500,
    ),
)


def command(
    out: Annotated[str, options.text("DIR", "Folder for the figure; made if need be.")] = "out",
    json: options.Json = False,
) -> None:
    """Three real trainings: what is claimed, what is lost, what the fix gives.

    A table, and a figure for a slide as PNG and PDF.

    \b
    Example:
      noisymean demo --out out
    """
    need_matplotlib()
    target = folder(out)
    found = story(note)
    figure = story_figure(found)
    for name in (FIGURE, SLIDE):
        write_plot("out", figure, target / name)
    if json:
        emit_json(
            {
                "runs": [told.record() for told in found.runs],
                "loader": found.loader.record(),
                "figure": str(target / FIGURE),
                "slide": str(target / SLIDE),
                "version": __version__,
            }
        )
    else:
        _print(console(), found)
        say(console(), f"Figure: {target / FIGURE}, for a slide: {target / SLIDE}")


def story(tell: Callable[[str], None] = lambda _: None) -> Story:
    """All of it, worked out; `tell` hears of each run."""
    runs = []
    for number, training in enumerate(TRAININGS, start=1):
        tell(f"[{number}/{len(TRAININGS)}] {training.title}")
        runs.append(training.told())
    return Story(tuple(runs), Loader.of(LOADER))


def _print(out: Console, found: Story) -> None:
    say(out, f"Three trainings: epsilon of the whole run at delta = {exactly(found.delta)}, small is private")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "claimed", "leakage", "guarantee", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for told in found.runs:
        for title, answer in ((told.title, told.as_run), ("  with constants", told.with_constants)):
            one = Range.of(answer)
            style = "bold" if answer.verdict == "violated" else None
            table.add_row(title, one.claimed_text, one.low_text, one.high_text, toned(one.verdict), style=style)
        table.add_section()
    out.print(table, "")
    for sentence in found.finding:
        say(out, sentence)
    for told in found.runs:
        divisor = for_people(told.as_run.mechanism.denominator_in_words())
        say(out, f"- {told.title}: {told.setting}; divides by {divisor}.")
    say(out, f"- {found.loader}.")
    say(out, "- leakage: certainly lost, on two datasets that --json names; guarantee: certainly not exceeded.")
    say(out, f"- with constants: {account_words.spoken(found.runs[0].with_constants)}.")
