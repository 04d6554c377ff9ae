"""A preprocessor of mdBook for the guide: links that leave the book lead to the repository instead.

mdBook starts it with `supports RENDERER`, then with a book on standard input, and reads the book back (see docs/guide/book.toml).
"""

import json
import posixpath
import re
import sys

# Where the chapters lie in the repository.
HOME = "docs/guide/src"


def outside(content, chapter, repository):
    """A chapter's text with its links led to the repository where they leave the book."""

    def led(match):
        link = match[1]
        path = posixpath.normpath(posixpath.join(HOME, posixpath.dirname(chapter), link))
        if re.match(r"[a-z]+:|#", link) or path.startswith(f"{HOME}/"):
            return match[0]
        return f"]({repository}/blob/main/{path})"

    return re.sub(r"\]\(([^()\s]+)\)", led, content)


def walk(part, repository):
    """Every chapter of a part of the book, in place."""
    if isinstance(part, list):
        for item in part:
            walk(item, repository)
    elif isinstance(part, dict):
        if part.get("path") and isinstance(part.get("content"), str):
            part["content"] = outside(part["content"], part["path"], repository)
        for value in part.values():
            walk(value, repository)


def main(arguments):
    if arguments[:1] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    walk(book, context["config"]["output"]["html"]["git-repository-url"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
