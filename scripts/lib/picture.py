"""Draws the run of README's picture as an SVG: a real terminal, the program as it is, and a scripted model that says what the 1.5 B model
of the catalogue said to the same task.

Usage: picture.py PROGRAM [--check]    Writes docs/images/run.svg; with --check it only says whether that file is what it would write.
"""

import fcntl
import html
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import sys
import tempfile
import termios
import time

from scripted_model import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/images/run.svg"
SCRIPT = ROOT / "docs/scripted/edit.jsonl"
TASK = 'Replace "port = 8417" with "port = 8420" in config/server.toml.'
COLUMNS, ROWS = 100, 60
# The question that is answered, and the answer.
QUESTION, ANSWER = b"allow edit_file?", b"y\n"
SECONDS = 60

CHARACTER, LINE, EDGE = 8.4, 19, 16
COLOURS = {"31": "#f38b8b", "32": "#8fd18f", "33": "#e5c07b", "34": "#82aaff", "35": "#c792ea", "36": "#6fc3df"}
PIECE = re.compile(r"\x1b\[(?P<arguments>[?0-9;]*)(?P<command>[A-Za-z])|(?P<text>[^\x1b])", re.S)


def recorded(program):
    """What the program writes to a terminal on which a person says yes."""
    with tempfile.TemporaryDirectory() as directory, Server(SCRIPT) as model:
        workspace = pathlib.Path(directory) / "workspace"
        shutil.copytree(ROOT / "examples/workspace", workspace)
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(workspace)
            os.environ.update(TERM="xterm-256color", TOOLGATE_STATE=f"{directory}/state")
            os.environ.pop("NO_COLOR", None)
            os.execv(program, ["toolgate", "run", "--mode", "edit", TASK, *model.arguments])
        written = attended(terminal)
        _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the run of the picture failed:\n{written.decode(errors='replace')}")
    return written.decode()


def attended(terminal):
    """All that comes, with the question answered once."""
    written, asked, until = b"", False, time.monotonic() + SECONDS
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if not ready:
            # The program has stopped to wait: an answer typed before its question would not count.
            if not asked and QUESTION in written:
                os.write(terminal, ANSWER)
                asked = True
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            return written
        written += piece
    raise SystemExit(f"the run of the picture took more than {SECONDS} s")


def screen(written):
    """Lines of (character, colour, bold, dim), by the few sequences that the program uses."""
    lines, row, column, style = [[]], 0, 0, (None, False, False)
    for piece in PIECE.finditer(written):
        text, command = piece["text"], piece["command"]
        if text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            if row == len(lines):
                lines.append([])
        elif text:
            lines[row] += [(" ", None, False, False)] * (column - len(lines[row]))
            lines[row][column : column + 1] = [(text, *style)]
            column += 1
        elif command == "m":
            style = styled(style, piece["arguments"])
        elif command == "K":
            del lines[row][column:]
        elif command == "C":
            column += int(piece["arguments"] or 1)
    return lines


def styled(style, arguments):
    """A style after a sequence."""
    colour, bold, dim = style
    for argument in (arguments or "0").split(";"):
        if argument in ("", "0"):
            colour, bold, dim = None, False, False
        elif argument == "1":
            bold = True
        elif argument == "2":
            dim = True
        elif argument in COLOURS:
            colour = COLOURS[argument]
    return colour, bold, dim


def shown(lines):
    """The lines of the picture: the command in front, what differs from run to run made the same."""
    command = f"$ toolgate run --mode edit '{TASK}'"
    kept = [[(character, None, True, False) for character in command]]
    for line in lines:
        text = "".join(cell[0] for cell in line)
        if text.startswith("done · "):
            break
        if re.match(r"\S+ is not offered: ", text):
            continue
        time_at = re.search(r"\d+(?= ms$)", text.rstrip())
        if time_at:
            line = line[: time_at.start()] + [("1", *line[time_at.start()][1:])] + line[time_at.end() :]
        kept.append(line)
    while kept and not "".join(cell[0] for cell in kept[-1]).strip():
        kept.pop()
    return kept


def spans(line):
    """A line as SVG, a span for each stretch of one style."""
    parts, start = [], 0
    for end in range(1, len(line) + 1):
        if end < len(line) and line[end][1:] == line[start][1:]:
            continue
        text = "".join(cell[0] for cell in line[start:end])
        _, colour, bold, dim = line[start]
        style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "") + (' opacity=".6"' if dim else "")
        parts.append(f"<tspan{style}>{html.escape(text, quote=False)}</tspan>" if text.strip() or style else html.escape(text))
        start = end
    return "".join(parts)


def drawn(lines):
    """The picture."""
    width, height = round(COLUMNS * CHARACTER + 2 * EDGE), len(lines) * LINE + 2 * EDGE
    rows = [f'<text x="{EDGE}" y="{EDGE + LINE * (n + 1) - 5}">{spans(line)}</text>' for n, line in enumerate(lines)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
            f"<!-- Drawn by scripts/lib/picture.py. --><title>toolgate run: {html.escape(TASK)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>',
            '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="14" fill="#d8dee9"'
            ' xml:space="preserve">',
            *rows,
            "</g></svg>\n",
        ]
    )


def main(program, *arguments):
    picture = drawn(shown(screen(recorded(os.path.abspath(program)))))
    if "--check" not in arguments:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture, "utf-8")
        print(f"wrote {PICTURE.relative_to(ROOT)}")
    elif not PICTURE.exists() or PICTURE.read_text("utf-8") != picture:
        sys.exit(f"{PICTURE.relative_to(ROOT)} is not what the program prints; scripts/lib/picture.py PROGRAM draws it anew")
    else:
        print(f"{PICTURE.relative_to(ROOT)} is what the program prints")


if __name__ == "__main__":
    main(*sys.argv[1:])
