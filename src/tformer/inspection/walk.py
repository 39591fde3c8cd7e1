"""The way of one token through the encoder, in the paper's order: from its piece to its row of `memory`."""

import math
from dataclasses import dataclass

from torch import Tensor

from tformer.inspection.example import attention_step
from tformer.inspection.record import Pair, Recording
from tformer.inspection.steps import Column, Line, Step, Table, Vector, numbers, rows
from tformer.model import Transformer, sinusoids


@dataclass(frozen=True)
class EncoderWalk:
    """The steps of one token, closely in one head of one layer.

    Attributes:
        model: that was heard.
        pair: what it read.
        heard: the pass.
        layer: from 1.
        head: from 1.
        position: the token's, from 0.
    """

    model: Transformer
    pair: Pair
    heard: Recording
    layer: int
    head: int
    position: int

    def steps(self) -> list[Step]:
        """Give them in the order of the calculation."""
        return [
            self._pieces(),
            self._embedding(),
            self._positions(),
            self._layer_input(),
            self._projections(),
            self._attention(),
            self._heads(),
            self._residual("self_attention", "MultiHead", ".self_attention.w_o"),
            self._feed_forward(),
            self._residual("feed_forward", "FFN", ".feed_forward"),
            self._memory(),
        ]

    @property
    def _count(self) -> int:
        return len(self.pair.src)

    @property
    def _piece(self) -> str:
        return self.pair.src_pieces[self.position]

    @property
    def _pre_norm(self) -> bool:
        return self.model.config.norm_placement == "pre"

    def _read(self, module: str) -> Tensor:
        """What a module of the layer read at the token's position; the layer itself where no name is given."""
        return self.heard.modules[f"encoder_layers.{self.layer - 1}{module}"][0][self.position]

    def _gave(self, module: str) -> Tensor:
        return self.heard.modules[f"encoder_layers.{self.layer - 1}{module}"][1][self.position]

    def _pieces(self) -> Step:
        columns: dict[str, Column] = {
            "positions": range(self._count),
            "pieces": self.pair.src_pieces,
            "ids": self.pair.src,
        }
        return Step(
            "pieces",
            "Text to pieces, pieces to ids",
            "",
            "§5.1, §3.4",
            f"1 sentence → {self._count} pieces → {self._count} ids",
            [Table(columns, ("position", "piece", "id"), across=True)],
            f"▁ is a space, </s> the end. The token followed below: {self._piece}, position {self.position}.",
        )

    def _embedding(self) -> Step:
        embedding, index = self.model.source_embedding, self.pair.src[self.position]
        vocab_size, d_model = embedding.table.weight.shape
        row = embedding.table.weight.detach()[index].cpu()
        return Step(
            "embedding",
            "Each id selects a row of the embedding table",
            "√d_model · E[id]",
            "§3.4",
            f"{self._count} ids → {self._count} positions × {d_model} features; E: {vocab_size} rows × {d_model}",
            [
                Vector("row", f"E[{index}]", numbers(row)),
                Line("sqrt_d_model", "√d_model", math.sqrt(d_model)),
                Vector("scaled", "√d_model · E[id]", numbers(row * embedding.scale)),
            ],
        )

    def _positions(self) -> Step:
        learned, place = self.model.source_embedding.learned_positions, self.position
        x = self.heard.modules["source_embedding"][1]
        if learned is None:
            equation = "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))"
            signal = sinusoids(place + 1, x.size(1))[place]
        else:
            equation = "PE[pos]: a learned row for each position"
            signal = learned.weight.detach()[place].cpu()
        size = f"{x.size(0)} × {x.size(1)}"
        return Step(
            "position",
            "The position is added",
            equation,
            "§3.5",
            f"{size} + {size} → {size}",
            [
                Vector("position_signal", f"PE[{place}]", numbers(signal)),
                Vector("x", "√d_model · E[id] + PE", numbers(x[place])),
            ],
            "Content and place in one row. In training, dropout follows here, and each sub-layer below (§5.4).",
        )

    def _layer_input(self) -> Step:
        vectors = [Vector("x", "x", numbers(self._read("")))]
        note = "Layer normalisation follows each sub-layer, as in the paper (post-norm)."
        if self._pre_norm:
            vectors.append(Vector("norm", "LayerNorm(x)", numbers(self._gave(".self_attention_residual.norm"))))
            note = "This model normalises before each sub-layer (pre-norm); the paper does it after."
        before = f"; {self.layer - 1} came before" if self.layer > 1 else ""
        title = f"Encoder layer {self.layer} of {len(self.model.encoder_layers)}{before}"
        return Step("layer_input", title, "", "§3.1", "", [*vectors], note)

    def _projections(self) -> Step:
        heard = self.heard.encoder_self[self.layer - 1]
        query, key, value = (each[self.head - 1] for each in (heard.query, heard.key, heard.value))
        seen = "LayerNorm(x)" if self._pre_norm else "x"
        columns: dict[str, Column] = {"positions": range(self._count), "pieces": self.pair.src_pieces}
        return Step(
            "projections",
            f"Queries, keys and values of head {self.head} of {heard.query.size(0)}",
            f"q = {seen} W_i^Q,  k = {seen} W_i^K,  v = {seen} W_i^V,  i = {self.head}",
            "§3.2.2",
            f"{self._count} × {self.model.config.d_model} → q and k: {self._count} × {query.size(1)}, "
            f"v: {self._count} × {value.size(1)}",
            [
                Vector("query", f"q of {self._piece}", numbers(query[self.position])),
                Table(columns | {"keys": rows(key), "values": rows(value)}, ("pos", "piece", "k", "v")),
            ],
            "Self-attention: queries, keys and values all come from the same positions.",
        )

    def _attention(self) -> Step:
        heard, place = self.heard.encoder_self[self.layer - 1], self.position
        return attention_step(
            "attention",
            f"Where {self._piece} looks",
            heard.query[self.head - 1, [place]],
            heard.key[self.head - 1],
            heard.value[self.head - 1],
            heard.mask[[place]],
            self.pair.src_pieces,
            "The encoder may read the whole sentence: no key is blocked.",
        )

    def _heads(self) -> Step:
        mixed = self.heard.encoder_self[self.layer - 1].output[:, self.position]
        heads, d_v = mixed.shape
        output = self._gave(".self_attention.w_o")
        return Step(
            "heads",
            "The heads are joined and projected",
            "MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O",
            "§3.2.2",
            f"{heads} heads × {d_v} → {heads * d_v} → {len(output)} features",
            [
                Table({"heads": list(range(1, heads + 1)), "mixed": rows(mixed)}, ("head", "Σ weight · value")),
                Vector("concat", "Concat", numbers(self._read(".self_attention.w_o"))),
                Vector("output", "Concat · W^O", numbers(output)),
            ],
        )

    def _residual(self, sublayer: str, name: str, last: str) -> Step:
        """Show the residual connection around a sub-layer that ends in the module `last`, and a norm behind it."""
        attends, norm = sublayer == "self_attention", f".{sublayer}_residual.norm"
        if self._pre_norm:
            x, total = self._read(norm), self._read(".feed_forward_residual.norm") if attends else self._gave("")
        else:
            x, total = self._read("" if attends else ".feed_forward"), self._read(norm)
        vectors = [Vector("x", "x", numbers(x)), Vector("sublayer", f"{name}(…)", numbers(self._gave(last)))]
        vectors.append(Vector("sum", f"x + {name}(…)", numbers(total)))
        if not self._pre_norm:
            vectors.append(Vector("norm", "LayerNorm(sum)", numbers(self._gave(norm))))
        return Step(
            f"{sublayer}_residual",
            "Residual connection" if self._pre_norm else "Residual connection, layer normalisation",
            f"x + {name}(LayerNorm(x))" if self._pre_norm else f"LayerNorm(x + {name}(x))",
            "§3.1",
            f"{len(x)} + {len(x)} → {len(x)} features",
            [*vectors],
        )

    def _feed_forward(self) -> Step:
        hidden, gelu = self._gave(".feed_forward.w_1"), self.model.config.activation == "gelu"
        vectors = [Vector("norm", "LayerNorm(x)", numbers(self._read(".feed_forward")))] if self._pre_norm else []
        vectors.append(Vector("hidden", "x W_1 + b_1", numbers(hidden)))
        vectors.append(Vector("active", "GELU(…)" if gelu else "max(0, …)", numbers(self._read(".feed_forward.w_2"))))
        vectors.append(Vector("output", "… W_2 + b_2", numbers(self._gave(".feed_forward"))))
        return Step(
            "feed_forward",
            "The position-wise feed-forward network",
            f"FFN(x) = {'GELU(x W_1 + b_1)' if gelu else 'max(0, x W_1 + b_1)'} W_2 + b_2",
            "§3.3, Eq. 2",
            f"{self.model.config.d_model} → {len(hidden)} → {self.model.config.d_model} features, "
            "each position by itself",
            [*vectors],
            "" if gelu else f"Of the {len(hidden)} numbers in the middle, {int((hidden <= 0).sum())} become 0.",
        )

    def _memory(self) -> Step:
        names = [f"encoder_layers.{number}" for number in range(len(self.model.encoder_layers))]
        outputs = [numbers(self.heard.modules[name][1][self.position]) for name in names]
        memory = self.heard.modules["encoder_norm"][1]
        return Step(
            "memory",
            "Each layer does the same with weights of its own; the last one's output is the memory",
            "memory = LayerNorm(x)" if self._pre_norm else "",
            "§3.1",
            f"{memory.size(0)} positions × {memory.size(1)} features",
            [
                Table(
                    {"layers": list(range(1, len(names) + 1)), "outputs": outputs},
                    ("layer", f"output at {self._piece}"),
                ),
                Vector("memory", f"memory[{self.position}]", numbers(memory[self.position])),
            ],
            "The memory is no translation: it is what the decoder consults at every step.",
        )
