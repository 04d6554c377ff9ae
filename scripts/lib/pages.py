"""Checks the pages against the tree and the program.

Usage: pages.py PROGRAM

Each relative link leads to a file, and its anchor to a heading. Each flag in a page is one of `PROGRAM … --help`. Each test that
ARCHITECTURE.md and the decisions name is there, and each invariant names one. Each source file that is named is there under that name.
Each chapter of the guide is in its list.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Flags of other programs that pages name by themselves, without a command in front.
OTHERS = {"--features", "--no-default-features", "--check", "--jinja"}

MAP_BYTES = 12_000


def tracked(*patterns):
    """Files of the tree, those that are not committed yet included."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [ROOT / line for line in sorted(set(listed.splitlines())) if (ROOT / line).is_file()]


def name(path):
    return path.relative_to(ROOT).as_posix()


def without_code(text):
    """A page without its fences and its inline code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "`", text)


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    found, count = set(), {}
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.S | re.M), flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        number = count[slug] = count.get(slug, -1) + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def links(pages):
    """Links that lead nowhere."""
    wrong, count = [], 0
    for page in pages:
        for link in re.findall(r"\]\(([^()\s]+)\)", without_code(page.read_text("utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                wrong.append(f"{name(page)} links to {link}, which is not there")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                wrong.append(f"{name(page)} links to {link}, which has no such heading")
    return wrong, count


def helped(program, words=()):
    """The flags of a command and of all below it, by command."""
    run = subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, check=True, text=True)
    text = run.stdout.split("\nExamples:")[0]
    flags = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]*)", text, re.M)) | set(re.findall(r"^ +-(\w), --", text, re.M))
    found = {words: {f if f.startswith("--") else f"-{f}" for f in flags}}
    section = re.search(r"^Commands:\n(.*?)\n\n", text, re.S | re.M)
    for command in re.findall(r"^  ([a-z-]+)(?: |$)", section[1], re.M) if section else []:
        if command != "help":
            found.update(helped(program, (*words, command)))
    return found


def split(line):
    """A command line as words; one that no shell would read is taken apart at its blanks."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def snippets(text):
    """Inline code, and the commands of fences and of indented lines."""
    for fence in re.findall(r"^```(?:sh|console|bash)?\n(.*?)^```$", text, re.S | re.M):
        yield from (line.removeprefix("$ ") for line in re.sub(r"\\\n\s*", "", fence).splitlines())
    yield from re.findall(r"^ {4}(\S.*)$", text, re.M)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M))


def named_flags(snippet):
    """The command that a snippet is about, none where it names flags alone, and the flags."""
    words = split(snippet)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if "--" in words:
        words = words[: words.index("--")]
    for end, word in enumerate(words):
        if word in ("|", "&&", ">", "||"):
            words = words[:end]
            break
    flags = [word.split("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)]
    if not words or words[0] != "toolgate" and not words[0].startswith("--"):
        return None, []
    return tuple(words[1:]) if words[0] == "toolgate" else (), flags


def flags(program, pages):
    """Flags that the program does not have."""
    commands = helped(program)
    every = set().union(*commands.values())
    wrong, count = [], 0
    for page in pages:
        for snippet in snippets(page.read_text("utf-8")):
            words, found = named_flags(snippet)
            if words is None:
                continue
            command = ()
            while words[len(command) :] and (*command, words[len(command)]) in commands:
                command = (*command, words[len(command)])
            known = commands[command] | {"--help"} if command else every | OTHERS
            count += len(found)
            wrong += [f"{name(page)}: {' '.join(('toolgate', *command))} has no {flag}" for flag in found if flag not in known]
    return wrong, count


def tests(pages):
    """Tests that are named and not there, and invariants without one."""
    code = "\n".join(path.read_text("utf-8") for path in tracked("*.rs"))
    there = set(re.findall(r"\bfn (\w+)", code))
    wrong, count = [], 0
    for page in pages:
        text = page.read_text("utf-8")
        if page.name != "ARCHITECTURE.md":
            text = "".join(re.findall(r"\*\*Held by\.\*\*(.*?)(?:\n\n|\Z)", text, re.S))
        found = re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`", text)
        count += len(found)
        wrong += [f"{name(page)} names the test {test}, which is not there" for test in found if test not in there]
    invariants = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("\n## Invariants\n")[1].split("\n## ")[0]
    for invariant in re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", invariants, re.S | re.M):
        if not re.search(r"`\w+(_\w+){2,}`", invariant) and "Clippy" not in invariant:
            wrong.append(f"ARCHITECTURE.md: no test is named for: {invariant[:60]}")
    return wrong, count


def files(pages):
    """Source files that are named and not there, whatever folder they moved to."""
    there = {path.name for path in tracked("*.rs")}
    wrong, count = [], 0
    for page in pages:
        for path in re.findall(r"`([\w./-]+\.rs)`", page.read_text("utf-8")):
            count += 1
            if path.split("/")[-1] not in there:
                wrong.append(f"{name(page)} names {path}, which is not there")
    return wrong, count


def chapters():
    """Chapters that the guide's list leaves out; mdBook would not show them."""
    listed = (ROOT / "docs/guide/src/SUMMARY.md").read_text("utf-8")
    found = [path for path in tracked("docs/guide/src/*.md") if path.name != "SUMMARY.md"]
    return [f"{name(path)} is not in SUMMARY.md" for path in found if f"]({path.name})" not in listed], len(found)


def main(program):
    pages = tracked("*.md")
    records = [path for path in pages if name(path).startswith("docs/decisions/") or path.name == "ARCHITECTURE.md"]
    results = {
        "links": links(pages),
        "chapters": chapters(),
        "flags": flags(os.path.abspath(program), pages),
        "tests": tests(records),
        "source files": files([path for path in pages if path.name != "CHANGELOG.md"]),
    }
    wrong = [line for lines, _ in results.values() for line in lines]
    size = (ROOT / "ARCHITECTURE.md").stat().st_size
    if size > MAP_BYTES:
        wrong.append(f"ARCHITECTURE.md has {size} bytes; {MAP_BYTES} are a map, the rest belongs to docs/decisions or the guide")
    wrong += [f"no {what} were found at all" for what, (_, count) in results.items() if not count]
    print("\n".join(wrong + [", ".join(f"{count} {what}" for what, (_, count) in results.items()) + f": {len(wrong)} wrong"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
