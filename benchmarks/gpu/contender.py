"""The process of a contender: it prepares itself, then trains for a while at each turn.

It reads a line for each turn and answers by one of JSON. The first turn compiles and warms up, and
answers with what that took; each other one answers with images a second.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from benchmarks.gpu.groups import GROUPS, Program, Torch

WARMUP = 10


class Turns:
    """This process's turns, as the one that started it gives them."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def answer(self, **values: Any) -> None:
        """End a turn."""
        self._answers.write(json.dumps(values) + "\n")
        self._answers.flush()

    def wait(self) -> None:
        """Wait for the next turn; the process ends where there is none."""
        if not sys.stdin.readline():
            raise SystemExit


def run_program(program: Program, batch: int, steps: int, rounds: int, turns: Turns) -> None:
    """Run `drumline cnn`, which is held up between turns where it says a line of steps.

    Behind the first turn one step has run ahead when a turn begins, and does not count.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    from drumline.cnn.flags import parse
    from drumline.cnn.program import BenchmarkRun

    state = {"began": 0.0, "turn": 0.0}

    def say(line: str) -> None:
        now = time.perf_counter()
        print(line, file=sys.stderr, flush=True)
        if line == "Running warm up":
            turns.answer(ready=True)
            turns.wait()
            state["began"] = time.perf_counter()
        elif line.startswith("Step\t"):
            turns.answer(compiled_s=now - state["began"])
            turns.wait()
            state["turn"] = time.perf_counter()
        elif "(jitter = " in line and not line.startswith("1\t"):
            number = int(line.split("\t")[0])
            taken = steps if number == steps else steps - 1
            memory = jax.devices()[0].memory_stats() or {}
            turns.answer(
                rate=taken * batch / (now - state["turn"]),
                loss=float(line.split("\t")[2]),
                peak_gb=memory.get("peak_bytes_in_use", 0) / 1e9,
            )
            turns.wait()
            state["turn"] = time.perf_counter()

    flags = [
        *program.flags,
        f"--batch_size={batch}",
        f"--num_batches={steps * rounds + 1}",
        f"--num_warmup_batches={WARMUP}",
        f"--display_every={steps}",
    ]
    BenchmarkRun(parse(flags), say=say).run()


def run_torch(network: Torch, batch: int, steps: int, rounds: int, turns: Turns) -> None:
    """Train torchvision's network: channels last, and nothing is waited for within a turn."""
    import torch
    from torchvision import models

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, network.dtype)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    options = {"aux_logits": False} if network.network == "inception_v3" else {}
    model = getattr(models, network.network)(weights=None, **options).train().to(device)
    model = model.to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, network.size, network.size, device=device)
    images = images.to(memory_format=torch.channels_last, dtype=dtype)
    labels = torch.randint(0, 1000, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5, weight_decay=4e-5)
    loss_of = torch.nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler(device, enabled=network.dtype == "float16")
    run = torch.compile(model) if network.compiled else model

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, dtype, enabled=network.dtype != "float32"):
            loss = loss_of(run(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    turns.answer(ready=True)
    turns.wait()
    began = time.perf_counter()
    for _ in range(WARMUP):
        loss = step()
    loss.item()
    turns.answer(compiled_s=time.perf_counter() - began)
    for _ in range(rounds):
        turns.wait()
        began = time.perf_counter()
        for _ in range(steps):
            loss = step()
        last = loss.item()
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
        turns.answer(rate=steps * batch / seconds, loss=last, peak_gb=peak)


def main() -> None:
    """Be the contender that the arguments name."""
    group, name, batch, steps, rounds = sys.argv[1:]
    turns = Turns()
    contender = GROUPS[group].contenders[name]
    run = run_program if isinstance(contender, Program) else run_torch
    run(contender, int(batch), int(steps), int(rounds), turns)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
