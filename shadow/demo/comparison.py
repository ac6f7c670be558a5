"""A report's Markdown in a terminal: a table that is too wide gives a row several lines, and
never a part of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich import box
from rich.markdown import Markdown, MarkdownElement, TableElement, TableRowElement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = 2
EDGES = 2
BROKEN = 24
"""So wide at least is a column whose cells are lists of words, which may be broken."""


def show(console: Console, text: str) -> None:
    """Print a report's Markdown at the console's width."""
    console.print(_Report(text))


class _Table(TableElement):
    """Rich's own shortens cells to fit; this one folds a row's columns under each other."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = [[cell.content for cell in row.cells] for row in self._rows()]
        yield from _tables(grid, options.max_width)

    def _rows(self) -> Iterator[TableRowElement]:
        if self.header is not None and self.header.row is not None:
            yield self.header.row
        if self.body is not None:
            yield from self.body.rows


class _Report(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "table_open": _Table,
    }


def _tables(grid: list[list[Text]], width: int) -> Iterator[Table]:
    """The grid, its first row the heading, in as few lines a row as fit `width` columns."""
    if not grid:
        return
    columns: list[list[Text]] = [list(column) for column in zip(*grid, strict=True)]
    most = len(columns) - 1
    folded = columns
    for lines in range(1, max(most, 1) + 1):
        folded = _folded(columns, lines)
        if sum(map(_needs, folded)) + GAP * (len(folded) - 1) + EDGES <= width:
            break
    yield _table(folded)


def _folded(columns: list[list[Text]], lines: int) -> list[list[Text]]:
    """The first column as it is, the others dealt in turn over `lines` lines of each row."""
    first, *others = columns
    across = -(-len(others) // lines)
    empty = [Text() for _ in first]
    stacks = [others[n::across] for n in range(across)]
    return [_stacked(stack, lines, empty) for stack in ([first], *stacks)]


def _stacked(stack: Sequence[list[Text]], lines: int, empty: list[Text]) -> list[Text]:
    full = [*stack, *[empty] * (lines - len(stack))]
    return [Text("\n").join(cells) for cells in zip(*full, strict=True)]


def _needs(column: list[Text]) -> int:
    widths = [line.cell_len for cell in column for line in cell.split("\n")]
    return min(max(widths), BROKEN) if _breaks(column) else max(widths)


def _breaks(column: list[Text]) -> bool:
    """A list of reasons may be broken, at its white space; a figure and a name may not."""
    return any(", " in cell.plain for cell in column)


def _table(columns: list[list[Text]]) -> Table:
    table = Table(
        box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True
    )
    for number, (head, *_) in enumerate(columns):
        head.stylize("markdown.table.header")
        kept = not _breaks(columns[number])
        width = _needs(columns[number]) if kept else None
        table.add_column(head, justify="right" if number else "left", no_wrap=kept, min_width=width)
    for row in zip(*(cells for _, *cells in columns), strict=True):
        table.add_row(*row)
    return table
