"""A real Slurm of one node, this machine, on loopback: its controller and its node daemon, in a folder of their own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import wait_for

SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin"  # where daemons are, not always in the path
MISSING = [name for name in ("slurmctld", "slurmd", "sbatch") if shutil.which(name, path=SBIN) is None]

# A requeued job waits until its old credentials have expired: cred_expire, by default 120 seconds.
CONFIG = """
ClusterName=gatelab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
AuthInfo=cred_expire=10
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
MinJobAge=600
KillWait=30
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2
PartitionName=main Nodes=ALL Default=YES State=UP
"""


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Slurm as long as the block lasts; SLURM_CONF tells its commands where it is."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    controller_port, node_port = _free_ports(2)
    (folder / "slurm.conf").write_text(
        CONFIG.format(folder=folder, user=getpass.getuser(), controller_port=controller_port, node_port=node_port)
    )
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    daemons = []
    try:
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D"]):
            program = shutil.which(command[0], path=SBIN)
            assert program is not None
            with (folder / f"{command[0]}.out").open("wb") as out:
                daemons.append(subprocess.Popen([program, *command[1:]], stdout=out, stderr=out))
        wait_for(lambda: _said("sinfo", "--noheader", "--format=%T") == "idle")
        yield
        _said("scancel", "--user", getpass.getuser())
        wait_for(lambda: not states(only_waiting_or_running=True))
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            daemon.wait(60)
        del os.environ["SLURM_CONF"]


def states(only_waiting_or_running: bool = False) -> dict[str, str]:
    """The state of every element: {"3_0": "COMPLETED"}."""
    which = [] if only_waiting_or_running else ["--states=all"]
    lines = _said("squeue", "--noheader", "--array", *which, "--format=%i %T").splitlines()
    return dict(line.split() for line in lines)


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
