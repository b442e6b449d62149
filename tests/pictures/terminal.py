"""What a terminal shows, with its colours, as an SVG of its own: no font or file from elsewhere."""
import io

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

BACKGROUND, FOREGROUND = (17, 22, 28), (228, 233, 238)  # the page's colours by night
ANSI = [(43, 53, 64), (255, 123, 123), (87, 204, 144), (240, 179, 80), (119, 174, 251), (200, 150, 230), (110, 205, 220), (228, 233, 238)]
THEME = TerminalTheme(BACKGROUND, FOREGROUND, ANSI, ANSI)

FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 18px; font-weight: bold }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def svg_of(text, columns, title):
    """`text` has ANSI colours, as tmux captures them; lines beyond `columns` are cut off."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    console.print(Text("\n").join(Text.from_ansi(text).split("\n")), no_wrap=True, overflow="crop", highlight=False)
    drawn = console.export_svg(title=title, theme=THEME, code_format=FORMAT)
    return "\n".join(line.rstrip() for line in drawn.split("\n") if line.strip()) + "\n"
