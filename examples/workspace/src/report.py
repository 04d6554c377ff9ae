"""Prints the mean temperature of each station."""

import csv
import sys
from collections import defaultdict


def mean_by_station(path: str) -> dict[str, float]:
    readings = defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            readings[row["station"]].append(float(row["celsius"]))
    return {station: sum(values) / len(values) for station, values in readings.items()}


if __name__ == "__main__":
    for station, mean in sorted(mean_by_station(sys.argv[1]).items()):
        print(f"{station}: {mean:.1f}")
