"""Starts processes of one run as torchrun does, without its agent: a program that has imported tformer once, and forks.

Reads one JSON object a line: {"count": 2, "arguments": ["train", …], "folder": where each process's streams go,
"kill": null or [rank, signal, file]}: once the file is there, the signal goes to that rank, or to all where it is null.
Answers each with a line: the exit codes, by rank.
"""

import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path

import tformer.runs  # noqa: F401 (what every command needs)
from tformer import cli


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def run(rank, count, port, arguments, folder):
    """In a process of its own: the command line, as one of so many."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        descriptor = os.open(folder / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (until the process ends)
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR="127.0.0.1")
    sys.argv = ["tformer", *arguments]
    try:
        cli.main()
    except SystemExit as ending:
        return ending.code or 0
    except BaseException:
        traceback.print_exc()
    return 1


for line in sys.stdin:
    asked = json.loads(line)
    folder, port, children = Path(asked["folder"]), free_port(), []
    for rank in range(asked["count"]):
        child = os.fork()
        if child == 0:
            code = run(rank, asked["count"], port, asked["arguments"], folder)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        children.append(child)
    if asked["kill"]:
        victim, number, file = asked["kill"]
        while not Path(file).exists():
            time.sleep(0.01)
        for rank, child in enumerate(children):
            if victim in (None, rank):
                os.kill(child, number)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)
