"""How threads wait for work: for a moment by spinning, then asleep.

The OpenMP runtime of torch lets idle threads spin for milliseconds, which is quick on a machine that does nothing else.
If another process needs the core, the spinning thread is taken off it, and all others wait for it: training takes many
times as long as with one thread. The runtime reads its settings when torch loads it, so this has to come first.
"""

from __future__ import annotations

import os
import sys

SPINS = "GOMP_SPINCOUNT"  # rounds of spinning before a thread sleeps
OWN = ("OMP_WAIT_POLICY", SPINS)  # settings of the user's, which are respected
SHORT = 3000  # some ten microseconds: fewer make a quiet machine slower, more a busy one

_set_here = False


def shorten() -> None:
    """Let idle threads sleep soon, unless torch is loaded already or the user has decided otherwise."""
    global _set_here
    if "torch" not in sys.modules and not any(name in os.environ for name in OWN):
        os.environ[SPINS] = str(SHORT)
        _set_here = True


def description() -> tuple[bool, str]:
    """Whether idle threads sleep soon, as far as is known, and how they wait."""
    own = [f"{name}={os.environ[name]}" for name in OWN if name in os.environ]
    if _set_here or own == [f"{SPINS}={SHORT}"]:
        return True, f"idle threads sleep soon ({SPINS}={SHORT})"
    if own:
        return True, f"idle threads wait as the environment says ({', '.join(own)})"
    return False, "idle threads spin for long, since torch was imported before gatelab"
