"""What decoding keeps between steps, so that no step computes a position twice.

Keys and values of the encoder's output are projected once a sentence, and shared by all its hypotheses; those of the
target positions decoded so far grow by one position a step.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from tformer.attention import KeyValue

_SPARE_POSITIONS = 8  # that there is room for when a prefix is copied


class Room:
    """Memory for the keys and values of decoded positions and of some to come, so that a step copies only its own.

    Attributes:
        parts: [rows, heads, room, d_k] and [rows, heads, room, d_v] float.
        taken: positions written so far.
    """

    def __init__(self, parts: KeyValue, taken: int) -> None:
        self.parts = parts
        self.taken = taken

    @classmethod
    def around(cls, prefix: KeyValue, more: int) -> "Room":
        """Copy a prefix to where more positions can follow."""
        return cls(KeyValue(*(F.pad(part, (0, 0, 0, more)) for part in prefix)), prefix.key.size(2))

    def write(self, new: KeyValue) -> KeyValue:
        """Write new positions behind those taken, and give all."""
        start, self.taken = self.taken, self.taken + new.key.size(2)
        for part, more in zip(self.parts, new, strict=True):
            part[:, :, start : self.taken] = more
        return self.first(self.taken)

    def first(self, length: int) -> KeyValue:
        """Give the first positions, without copying them."""
        return KeyValue(*(part[:, :, :length] for part in self.parts))


class LayerCache(NamedTuple):
    """What one decoder layer keeps between steps. It never changes: what goes on from it twice does so in a copy.

    Attributes:
        memory: keys and values of the memory, one row a sentence: its hypotheses, which stand in neighbouring rows,
            share it.
        prefix: those of the prefix decoded so far, one row a hypothesis.
        room: where the prefix stands; None as long as nothing stands behind it.
    """

    memory: KeyValue
    prefix: KeyValue | None = None
    room: Room | None = None

    def extended(self, new: KeyValue) -> "LayerCache":
        """Give the cache with new positions behind the prefix."""
        if self.prefix is None:
            return LayerCache(self.memory, new)
        length, room = self.prefix.key.size(2), self.room
        if room is None or room.taken != length or length + new.key.size(2) > room.parts.key.size(2):
            room = Room.around(self.prefix, new.key.size(2) + _SPARE_POSITIONS)
        return LayerCache(self.memory, room.write(new), room)

    def select(self, rows: Tensor, sentences: Tensor | None) -> "LayerCache":
        """Give the cache of these rows, [new_rows] int64, and sentences, [new_sentences] int64; None: all of them."""
        memory = self.memory if sentences is None else _selected(self.memory, sentences)
        if self.prefix is None or self.room is None:
            return LayerCache(memory, None if self.prefix is None else _selected(self.prefix, rows))
        length = self.prefix.key.size(2)
        room = Room(_selected(self.room.parts, rows), length)
        return LayerCache(memory, room.first(length), room)


def _selected(parts: KeyValue, rows: Tensor) -> KeyValue:
    return KeyValue(*(part.index_select(0, rows) for part in parts))


@dataclass(frozen=True)
class DecoderState:
    """What decoding carries from one step to the next: a row for each hypothesis, those of a sentence side by side.

    Attributes:
        layers: one cache a decoder layer.
        memory_mask: [sentences, 1, 1, src_len] bool, True = real source piece, may be attended; None: all are.
        prefix_length: target positions decoded so far.
    """

    layers: list[LayerCache]
    memory_mask: Tensor | None
    prefix_length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "DecoderState":
        """Give the state of these rows in this order.

        Args:
            rows: [new_rows] int64, repeats allowed; equally many of each sentence, side by side.
            sentences: [new_sentences] int64, rising: those that go on, with the memory that their rows share; None:
                each row is one, with the memory of the row before it.
        """
        memory, prefix = self.layers[0].memory.key, self.layers[0].prefix
        if sentences is None:
            width = 1 if prefix is None else prefix.key.size(0) // memory.size(0)
            sentences = rows // width
        elif len(sentences) == memory.size(0):
            return replace(self, layers=[layer.select(rows, None) for layer in self.layers])
        memory_mask = None if self.memory_mask is None else self.memory_mask.index_select(0, sentences)
        return DecoderState([layer.select(rows, sentences) for layer in self.layers], memory_mask, self.prefix_length)
