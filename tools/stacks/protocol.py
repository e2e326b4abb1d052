# SPDX-License-Identifier: MIT
"""The stack protocol of `batchone study --stack`, for adapters in Python.

The request is a JSON line on stdin. The answers are JSON lines on what stdout was at the start; from then on whatever
the stack's own code prints goes to stderr, so that no library can spoil a line. A cell that cannot run becomes a status:
`Refusal` says which; memory that runs out is out_of_memory; anything else is failed, with its traceback on stderr.
"""
import json
import os
import sys
import time
import traceback
from importlib import metadata


class Refusal(Exception):
    """The cell cannot run: "unsupported", "out_of_memory" or "failed", and why in a sentence."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def unsupported(message):
    return Refusal("unsupported", message)


class Harness:
    """The other side of the pipe."""

    def __init__(self):
        self.fd = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        line = sys.stdin.readline()
        self.cell = json.loads(line)
        self.who = {}

    def say(self, answer):
        data = (json.dumps(answer, separators=(",", ":"), default=str) + "\n").encode()
        while data:
            data = data[os.write(self.fd, data):]

    def is_called(self, stack, *packages):
        """Its name, and its version from those of packages, which need not be loaded for that."""
        versions = []
        for name in packages:
            try:
                versions.append(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                versions.append(f"{name} none")
        self.who = {"stack": stack, "version": ", ".join(versions)[:64]}

    def hello(self, **facts):
        self.say({**self.who, **facts})

    def steps(self, step, between=None):
        """Runs all steps of the cell, one call of `step` each, which returns when its result is there; `between` puts
        back what a step has moved, outside of its time. Returns the measured times in nanoseconds."""
        clock, write, fd = time.perf_counter_ns, os.write, self.fd
        warmup, times = self.cell["warmup"], []
        for i in range(warmup + self.cell["steps"]):
            began = clock()
            step()
            took = clock() - began
            write(fd, b'{"step":%d,"ns":%d}\n' % (i, took))
            if between:
                between()
            if i >= warmup:
                times.append(took)
        return times


def warm(step, between, seconds, least):
    """Steps before the first that is told of: `least` of them, and for so long. Returns how many."""
    until, count = time.perf_counter() + seconds, 0
    while count < least or time.perf_counter() < until:
        step()
        if between:
            between()
        count += 1
    return count


def is_tied(cell):
    """Whether embedding and head are one matrix: then the model has one of them fewer."""
    s = cell["shape"]
    embedding = s["vocab"] * s["hidden"]
    layer = s["hidden"] * s["head_dim"] * 2 * (s["heads"] + s["kv_heads"]) + 3 * s["hidden"] * s["ffn"]
    return 0 < cell.get("parameters", 0) < layer * s["layers"] + 1.5 * embedding


def one_line(text):
    return " ".join(str(text).split())


def status_of(error):
    """The status that an exception of a stack means, and its sentence."""
    name, text = type(error).__name__, one_line(error)
    if isinstance(error, Refusal):
        return error.status, text
    if isinstance(error, MemoryError) or name == "OutOfMemoryError" or "out of memory" in text.lower():
        return "out_of_memory", text or "memory ran out"
    if isinstance(error, ModuleNotFoundError):
        return "unsupported", f"the Python package {error.name} is not installed"
    return "failed", f"{name}: {text}"


def serve(measure, args):
    """Calls measure(harness, args) and ends the process: at once, for what a library does at exit is not of the cell."""
    harness = Harness()
    try:
        measure(harness, args)
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)
    except BaseException as error:  # an interrupt too: the harness waits for a word
        if not isinstance(error, Refusal):
            traceback.print_exc()
        status, message = status_of(error)
        harness.say({**harness.who, "status": status, "message": message})
    sys.stderr.flush()
    os._exit(0)
