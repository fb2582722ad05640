"""Make the data of `cameras.toml`: three cameras that see some of the same scenes, with noise.

    python examples/make_images.py [DIRECTORY]

An image is a binary value: red, green and blue, a byte each, pixel after pixel. The same images are
made every time; a file holds ten seconds of one camera.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 9
START = datetime(2026, 1, 1, tzinfo=UTC)
CAMERAS = ("gate", "hall", "yard")
FILES = 4
SECONDS_PER_FILE = 10
IMAGES_PER_SECOND = 4
PIXELS = 5_000
SCENES = 30
NOISE = 8


def images(camera: int, number: int) -> pa.Table:
    """Ten seconds of one camera."""
    scenes = np.random.default_rng(SEED).integers(0, 256, (SCENES, 3 * PIXELS), np.int16)
    random = np.random.default_rng([SEED, camera, number])
    count = SECONDS_PER_FILE * IMAGES_PER_SECOND
    seen = scenes[random.integers(0, SCENES, count)]
    seen = (seen + random.integers(-NOISE, NOISE + 1, seen.shape)).clip(0, 255).astype(np.uint8)
    begin = START + timedelta(seconds=SECONDS_PER_FILE * number)
    offsets = np.sort(random.uniform(0, SECONDS_PER_FILE, count))
    return pa.table(
        {
            "id": pa.array(np.arange(count) + number * count),
            "ts": pa.array(
                [begin + timedelta(seconds=float(offset)) for offset in offsets],
                pa.timestamp("us", tz="UTC"),
            ),
            "image": pa.array([image.tobytes() for image in seen], pa.binary()),
        }
    )


def write(root: Path) -> None:
    """Write the three cameras, a directory each; Spark takes files in the order of their dates."""
    for camera, name in enumerate(CAMERAS):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(FILES):
            file = root / name / f"{number}.parquet"
            pq.write_table(images(camera, number), file)
            date = (START + timedelta(seconds=number)).timestamp()
            os.utime(file, (date, date))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
