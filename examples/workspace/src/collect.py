"""Asks every station for a reading and appends what comes to the readings file."""

import csv
import datetime
import urllib.request


def read_station(station: str, host: str, port: int) -> float:
    """The temperature at a station, in degrees Celsius."""
    with urllib.request.urlopen(f"http://{host}:{port}/stations/{station}", timeout=5) as answer:
        return float(answer.read())


def append_reading(path: str, station: str, celsius: float) -> None:
    now = datetime.datetime.now().isoformat(timespec="minutes")
    with open(path, "a", newline="") as file:
        csv.writer(file).writerow([now, station, celsius])
