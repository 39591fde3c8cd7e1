"""A file's checksum, by which damage is told: a flipped bit, a torn end, another file of the same size."""

from pathlib import Path

import xxhash

_READ_AT_ONCE = 1 << 20  # bytes


def checksum(path: Path) -> str:
    """Give the 128 bits of XXH3 of a file's content, as 32 hexadecimal digits.

    Many gigabytes a second, where SHA-256 takes a second or two for each: a checkpoint is hashed at every save. It is
    no guard against forgery, and need not be one: who can change the file can change what is written beside it.

    Raises:
        OSError: the file cannot be read.
    """
    digest, buffer = xxhash.xxh3_128(), bytearray(_READ_AT_ONCE)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(view[:size])
    return digest.hexdigest()
