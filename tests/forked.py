"""Scripts in processes of their own, forked from one that has imported torch and gatelab, which takes seconds.

That process has done nothing else: no compiler was looked for, no kernel was loaded and no thread was started. What a
script is told by its environment when it is running is therefore as in a new process; what is looked at while importing
is not, and needs one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SERVER = """
import json, os, sys
import torch
import gatelab.cli.execution, gatelab.engine.recurrent, gatelab.training
for line in iter(sys.stdin.readline, ""):
    if (child := os.fork()) == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
order = json.loads(line)
for number, name in enumerate((os.devnull, order["out"], order["err"])):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
os.environ.clear()
os.environ.update(order["environment"])
os.chdir(order["folder"])
sys.argv = ["-c", *order["arguments"]]
exec(compile(order["script"], "<string>", "exec"), {"__name__": "__main__"})
"""


class Forks:
    """Runs scripts as `python -c` does; the process to fork from is started for the first one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.server = folder, 0, None

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        if self.server is None:
            command, pipe = [sys.executable, "-c", SERVER], subprocess.PIPE
            self.server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.count += 1
        out, err = (self.folder / f"{self.count}.{name}" for name in ("out", "err"))
        order = {"script": script, "arguments": arguments, "out": str(out), "err": str(err), "folder": os.getcwd()}
        print(json.dumps({**order, "environment": os.environ | environment}), file=self.server.stdin, flush=True)
        code = int(self.server.stdout.readline())
        return subprocess.CompletedProcess([script, *arguments], code, out.read_text(), err.read_text())

    def close(self) -> None:
        if self.server is not None:
            self.server.communicate()
