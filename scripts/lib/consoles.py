"""Runs the console blocks of pages and compares what the program prints with what stands in them.

Usage: consoles.py PROGRAM PAGE…    A block begins with ```console. Its lines behind "$ " are commands; a backslash at the end goes on.
A comment `<!-- model: FILE -->` in front of a block names the script of a model (see scripted_model.py). A line "…" stands for any
number of lines, and a "…" in a line for any text. Times and random ids may differ. Left out are lines that count tokens, and those that say
what this machine cannot offer.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

from scripted_model import Server

BLOCK = re.compile(r"(?:<!-- model: (?P<model>\S+) -->\n)?```console\n(?P<text>.*?)^```$", re.S | re.M)


def commands(text):
    """The commands of a block, each with the lines that it prints."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines, "").strip()
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return found


def plain(line):
    """A line without what differs from run to run."""
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line.rstrip())
    return re.sub(r'\b\d+ ms\b|(?<="ms":)\d+', "TIME", line)


def agrees(want, got):
    """Whether the lines are those, where "…" stands for any."""
    if not want:
        return not got
    if want[0].strip() == "…":
        return any(agrees(want[1:], got[skip:]) for skip in range(len(got) + 1))
    pattern = ".*".join(re.escape(part) for part in want[0].split("…"))
    return bool(got) and bool(re.fullmatch(pattern, got[0])) and agrees(want[1:], got[1:])


def printed(program, command, model):
    """The lines that a command prints, on either stream."""
    words = shlex.split(command)
    if not words or words[0] != "toolgate":
        raise SystemExit(f"{command}: only toolgate can be run here; take another language for the block, such as sh")
    with tempfile.TemporaryDirectory() as state:
        env = {**os.environ, "TOOLGATE_STATE": state, "NO_COLOR": "1"}
        arguments = [program, *words[1:]] + (model.arguments if model and words[1] == "run" else [])
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=120, check=False
        )
    lines = done.stdout.decode().splitlines()
    return [plain(line) for line in lines if not re.match(r"done · |\S+ is not offered: ", line)]


def check(program, page):
    """How many commands a page has, and how many of them print something else."""
    count = wrong = 0
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for block in BLOCK.finditer(text):
        for command, lines in commands(block["text"]):
            if block["model"]:
                with Server(block["model"]) as model:
                    got = printed(program, command, model)
            else:
                got = printed(program, command, None)
            count += 1
            want = [plain(line) for line in lines]
            if not agrees(want, got):
                wrong += 1
                shown = "\n".join(got)
                print(f"{page}: `{command}` prints something else. Put this in the block, or mend the program:\n{shown}")
    return count, wrong


def main(program, *pages):
    found = [check(os.path.abspath(program), page) for page in pages]
    count, wrong = (sum(column) for column in zip(*found))
    print(f"{count} commands of console blocks, {wrong} of them wrong")
    sys.exit(1 if wrong or not count else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
