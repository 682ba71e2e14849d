"""The progress of a training: a bar in a terminal, nothing in a page or a log."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, TextColumn


class TrainingBar:
    """Steps done, the time left and the last loss, on stderr; a context manager."""

    def __init__(self, name: str, steps: int, done: int = 0):
        console = Console(stderr=True)
        columns = *Progress.get_default_columns(), TextColumn("{task.fields[loss]}")
        self.bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bars.add_task(name, total=steps, completed=done, loss="")

    def __enter__(self) -> TrainingBar:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def advance(self) -> None:
        """One step more is done."""
        self.bars.advance(self.task)

    def show_loss(self, loss: float) -> None:
        """Show the mean loss since the last time."""
        self.bars.update(self.task, loss=f"loss {loss:.3f}")
