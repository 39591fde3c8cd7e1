"""Try on a GPU all that a CPU cannot show, in under ten minutes, and write what was found as one JSON file.

Loss and gradients beside the CPU's; training speed of models small and large, compiled and not, beside a plain loop; a
whole training on Multi30k and its BLEU; decoding speed and the same translations as on the CPU. A part that fails says
so in its place, and the others go on.

    python scripts/check_gpu.py --data data/multi30k --output gpu.json
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tformer.config import ModelConfig, TokenizerConfig
from tformer.data.batching import collate
from tformer.data.store import store_pairs, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.data.toy import make_toy_corpus
from tformer.model import Transformer
from tformer.progress import say
from tformer.runtime import describe_machine, prepare
from tformer.training.step import Objective

SCRIPTS = Path(__file__).resolve().parent
TFORMER = [sys.executable, "-m", "tformer"]
LAST_LINES = 15  # of what a part that failed has said


def gradients(device: str, precision: str, compiled: bool) -> tuple[float, torch.Tensor]:
    """Loss a token and the whole gradient of one batch, dropout off; the same weights and batch for every call."""
    pairs = make_toy_corpus().train[:2000]
    tokenizers = TokenizerPair.train(*zip(*pairs, strict=True), TokenizerConfig(vocab_size=500))
    corpus = tokenise(store_pairs(pairs, "built-in corpus"), tokenizers, None)
    runtime = prepare(device, precision, "auto", compiled)
    torch.manual_seed(0)
    model = Transformer(ModelConfig(dropout=0.0), tokenizers.source.vocab_size).to(runtime.device).train()
    sums = Objective(model, 0.1, runtime)(collate(corpus, np.arange(200)).to(runtime.device))
    (sums.loss / sums.num_tokens).backward()
    flat = torch.cat([parameter.grad.flatten().cpu() for parameter in model.parameters() if parameter.grad is not None])
    return sums.loss.item() / sums.num_tokens, flat


def agreement(device: str) -> dict[str, Any]:
    """How far loss and gradient are from the CPU's in float32, in parts of them."""
    loss, gradient = gradients("cpu", "fp32", compiled=False)
    found = {}
    for precision in ("fp32", "bf16"):
        for compiled in (False, True):
            other_loss, other = gradients(device, precision, compiled)
            found[f"{precision}, compiled" if compiled else precision] = {
                "loss": abs(other_loss - loss) / loss,
                "gradient": float((other - gradient).norm() / gradient.norm()),
            }
    return found


def run(command: list[str], seconds: float) -> dict[str, Any]:
    """Run one part: its JSON, or what it said last."""
    say(" ".join(command))
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        said, code = done.stderr, done.returncode
        result = json.loads(done.stdout) if code == 0 and done.stdout.lstrip().startswith("{") else done.stdout
    except subprocess.TimeoutExpired as stopped:
        said, code, result = str(stopped), -1, None
    found = {"command": command, "seconds": time.monotonic() - started, "code": code, "result": result}
    return found if code == 0 else found | {"said": said.splitlines()[-LAST_LINES:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of Multi30k; by default where scripts/download_multi30k.py puts it")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="+", default=["A", "base", "big"])
    parser.add_argument(
        "--max-tokens", type=int, default=25_000, help="pieces on each side of a batch, as the paper has"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each contender in each round")
    parser.add_argument("--minutes", type=float, default=1.8, help="of the whole training")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    arguments = parser.parse_args()
    found: dict[str, Any] = {"machine": describe_machine()}

    def keep(name: str, part: object) -> None:
        found[name] = part
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    try:
        keep("agreement with the CPU", agreement(arguments.device))
    except Exception as error:  # whatever it is, the other parts go on
        keep("agreement with the CPU", repr(error))
    data = ["--data", arguments.data] if arguments.data else []
    common = [*data, "--device", arguments.device, "--json"]
    budget = ["--max-tokens", str(arguments.max_tokens), "--seconds", str(arguments.seconds), "--rounds", "2"]
    for model in arguments.models:
        for compiled in ("false", "true"):
            script = [sys.executable, str(SCRIPTS / "bench_training.py"), "--model", model, "--compile", compiled]
            keep(f"training {model}, compile {compiled}", run([*script, *budget, *common], 150))
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"device={arguments.device}", f"training.max_minutes={arguments.minutes}"]
        settings += [f"data.folder={arguments.data}"] if arguments.data else []
        sets = [part for setting in settings for part in ("--set", setting)]
        train = [*TFORMER, "train", "--config", "multi30k-en-de.yaml", "--output", folder, "--overwrite", *sets]
        keep("Multi30k", run(train, 60 * arguments.minutes + 90))
        on_device = ["--model", folder, "--device", arguments.device]
        keep("Multi30k test", run([*TFORMER, "eval", *on_device, "--json"], 60))
        decode = [sys.executable, str(SCRIPTS / "bench_decoding.py"), *on_device, "--beam", "1", "4", "--json"]
        keep("decoding", run(decode, 120))
    say(f"{arguments.output} has it all")


if __name__ == "__main__":
    main()
