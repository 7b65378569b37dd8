"""Runs operators in processes of their own: one that hangs or dies is a finding, and no run ends by it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

import torchcalyx
from benchmarks.opdb.samples import operators, samples
from benchmarks.opdb.trial import Outcome, trial


@dataclass(frozen=True)
class Work:
    """What is asked of each operator. samples: at most so many, None for all. seconds: for each sample."""

    samples: int | None
    rtl: bool
    seconds: float


@dataclass
class _Worker:
    name: str
    process: BaseProcess
    pipe: Connection
    deadline: float
    found: list[Outcome] = field(default_factory=list)
    done: bool = False


def run_all(names: Sequence[str], work: Work, jobs: int) -> Iterator[tuple[str, list[Outcome]]]:
    """Outcomes of every sample of each operator, in the order in which the operators end."""
    _warm_up()
    waiting, running = list(reversed(names)), list[_Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_started(waiting.pop(), work))
            first = min(worker.deadline for worker in running)
            ready = wait([w.pipe for w in running], timeout=max(0.0, first - time.monotonic()))
            for worker in list(running):
                if worker.pipe in ready:
                    _receive(worker, work)
                elif time.monotonic() > worker.deadline:
                    _lost(worker, "too long", f"no answer within {work.seconds:g} s")
                if worker.done:
                    running.remove(worker)
                    _ended(worker)
                    yield worker.name, worker.found
    finally:
        for worker in running:
            _ended(worker)


def _warm_up() -> None:
    """What every operator needs is loaded once, before the processes part."""
    torch.set_num_threads(1)  # threads do not live on in a forked process
    operators()
    torchcalyx.compile(torch.nn.ReLU().eval(), torch.linspace(-1, 1, 8))


def _started(name: str, work: Work) -> _Worker:
    forked = multiprocessing.get_context("fork")
    mine, theirs = forked.Pipe(duplex=False)
    process = forked.Process(target=_serve, args=(name, work, theirs), daemon=False)
    process.start()
    theirs.close()
    return _Worker(name, process, mine, time.monotonic() + work.seconds)


def _serve(name: str, work: Work, pipe: Connection) -> None:
    """The process of one operator: sends each outcome, then None."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # what torch prints about its own code
    os.dup2(silence, 2)
    try:
        for sample in samples(name, work.samples):
            pipe.send(trial(sample, work.rtl))
    except Exception as error:  # the database itself fails, or this benchmark does
        pipe.send(Outcome("foreign", f"benchmark: {type(error).__name__}", str(error)[:1500]))
    pipe.send(None)


def _receive(worker: _Worker, work: Work) -> None:
    try:
        outcome = worker.pipe.recv()
    except (EOFError, OSError):
        _lost(worker, "died", f"its process ended (exit code {_exit_code(worker)})")
        return
    if outcome is None:
        worker.done = True
    else:
        worker.found.append(outcome)
        worker.deadline = time.monotonic() + work.seconds


def _exit_code(worker: _Worker) -> int | None:
    worker.process.join(5)
    return worker.process.exitcode


def _lost(worker: _Worker, reason: str, message: str) -> None:
    worker.found.append(Outcome("foreign", reason, message))
    worker.done = True


def _ended(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.join(1)
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()
