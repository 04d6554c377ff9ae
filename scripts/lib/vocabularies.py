"""Fetches the vocabularies of model families that the tests use beside those of the test models.

Usage: python3 vocabularies.py DIRECTORY

They are files of llama.cpp's own tests, without weights, and come out of the source archive of llama-cpp-python. The
archive is looked up in the index that pip is configured with, checked against its SHA-256, and only unpacked: nothing
of it is run. Does nothing where the files are there already. Exit code 1, with a reason, where they cannot be had.
"""

import hashlib
import html.parser
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request

PACKAGE, VERSION = "llama-cpp-python", "0.3.9"
ARCHIVE = f"llama_cpp_python-{VERSION}"
SHA256 = "a3a985f558385e2f5de5b663f4e9b0817506d6af98122450142cd98e79216370"
# A family each: SentencePiece without and with tokens of the user's, and the ways to split words before BPE.
FAMILIES = ["llama-spm", "phi-3", "falcon", "deepseek-coder", "gpt-2", "starcoder", "llama-bpe"]


def pip_settings():
    """What pip is configured with, by option; its environment variables win."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings = {}
    # Within what pip lists, later entries win.
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        settings.setdefault(name.rpartition(".")[0], {})[name.rpartition(".")[2]] = value.strip("'\"")
    merged = {}
    for section in ["global", "install", "download", ":env:"]:
        merged.update(settings.get(section, {}))
    return merged


class Links(html.parser.HTMLParser):
    """The links of an index page, by file name."""

    def __init__(self, page):
        super().__init__()
        self.found = {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        href = dict(attributes).get("href")
        if tag == "a" and href:
            path = urllib.parse.urlsplit(href).path
            self.found[urllib.parse.unquote(path.rpartition("/")[2])] = href


def fetch(file):
    """Writes the archive to an open file."""
    settings = pip_settings()
    index = settings.get("index-url")
    if index is None:
        # pip's own default.
        from pip._internal.models.index import PyPI

        index = PyPI.simple_url
    context = ssl.create_default_context(cafile=settings.get("cert"))
    page_url = f"{index.rstrip('/')}/{PACKAGE}/"
    with urllib.request.urlopen(page_url, timeout=60, context=context) as page:
        links = Links(page.read().decode()).found
        # The page may have been redirected.
        page_url = page.geturl()
    href = links.get(f"{ARCHIVE}.tar.gz")
    if href is None:
        raise OSError(f"the index has no {ARCHIVE}.tar.gz")
    digest = hashlib.sha256()
    with urllib.request.urlopen(urllib.parse.urljoin(page_url, href), timeout=60, context=context) as response:
        while chunk := response.read(1 << 18):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != SHA256:
        raise OSError(f"{ARCHIVE}.tar.gz is not the file that is expected: its SHA-256 is {digest.hexdigest()}")
    file.seek(0)


def unpack(file, directory, names):
    """Writes the named vocabularies to the directory, each only when it is whole."""
    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for name in names:
            member = archive.extractfile(f"{ARCHIVE}/vendor/llama.cpp/models/{name}")
            part = os.path.join(directory, f"{name}.part")
            with open(part, "wb") as out:
                out.write(member.read())
            os.replace(part, os.path.join(directory, name))


def main():
    directory = sys.argv[1]
    names = [f"ggml-vocab-{family}.gguf" for family in FAMILIES]
    missing = [name for name in names if not os.path.exists(os.path.join(directory, name))]
    if not missing:
        return 0
    try:
        os.makedirs(directory, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            fetch(file)
            unpack(file, directory, missing)
    except Exception as error:  # whatever it is, the tests can do without
        print(f"cannot fetch vocabularies: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
