"""Broken tensors at the four doors of the fused engine: call, backward pass, step, operator.

python tests/campaigns/doors.py                           10,000 calls, some ten minutes on one core
python tests/campaigns/doors.py --seed 3 --count 500
python tests/campaigns/doors.py --seed 3 --only 17        one of them again, with what it said

Each call is right but for one or two things that were done to it: a tensor of another device, type, shape, layout or
memory, a parameter or saved tensor that changes on the way, or something that torch does meanwhile (traces, transforms,
modes). Calls are made in a child process, many in a row, so that one leaves its traces for the next. Whatever comes is
an exception, or the answer of the eager engine to the same call. Exit code 1 if anything else was seen: a process that
died or hung, another answer.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import itertools
import multiprocessing
import os
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from gatelab import Recurrent, cell, cells, sigmoid, tanh
from gatelab.engine.fused.expected import has_memory
from gatelab.engine.fused.weights import tensors_of

LIMIT = 60.0  # seconds for one call; it takes milliseconds
TOGETHER = 250  # calls in one process
DOORS = ("call", "backward", "step", "operator")
H, D = 8, 3
LIBRARY = ("gru", "lstm", "mingru", "antisymmetric_rnn", "zoneout_lstm", "indrnn", "tlstm")


@cell
def own(x, h, W, U, b):
    """A matrix expression, and a gate."""
    f = sigmoid(W.f(x) + U.f(h) + b.f)
    return f * h + (1 - f) * tanh(W.n(x) + (U.n - U.n.T)(h))


class Subclass(Tensor):
    """A tensor of another type."""


# What is done to a tensor. Each function returns another tensor, or changes it in place.


def freed(t: Tensor) -> Tensor:
    t = t.detach().clone()
    t.untyped_storage().resize_(0)
    return t


def shrunk(t: Tensor) -> Tensor:
    t = t.detach().clone()
    t.untyped_storage().resize_(max(0, t.untyped_storage().nbytes() // 2))
    return t


def fake(t: Tensor) -> Tensor:
    with FakeTensorMode() as mode:
        return mode.from_tensor(t.detach())


def turned(t: Tensor) -> Tensor:
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t


def negative(t: Tensor) -> Tensor:
    return torch.complex(t.detach(), -t.detach()).conj().imag


def functional(t: Tensor) -> Tensor:
    return torch._to_functional_tensor(t.detach())


def zeros(t: Tensor) -> Tensor:
    return torch._efficientzerotensor(tuple(t.shape))


def inference(t: Tensor) -> Tensor:
    with torch.inference_mode():
        return t.detach().clone()


def spaced(t: Tensor) -> Tensor:
    return torch.stack([t.detach(), t.detach()], -1)[..., 0]


def expanded(t: Tensor) -> Tensor:
    return t.detach()[..., :1].expand(t.shape) if t.dim() else t


SAME = (turned, negative, inference, spaced, lambda t: t.detach().clone(), lambda t: t.detach().requires_grad_())
OTHER: tuple[Callable[[Tensor], Any], ...] = (
    freed,
    shrunk,
    fake,
    functional,
    zeros,
    expanded,
    lambda t: t.to("meta"),
    lambda t: t.double(),
    lambda t: t.half(),
    lambda t: t.bfloat16(),
    lambda t: t.to(torch.int32),
    lambda t: t.bool(),
    lambda t: t.to(torch.complex64),
    lambda t: t.detach().to_sparse(),
    lambda t: t.detach().as_subclass(Subclass),
    lambda t: t[:0],
    lambda t: t[:1],
    lambda t: t.flatten(),
    lambda t: t.unsqueeze(0),
    lambda t: t.sum(),
    lambda t: torch.cat([t, t]) if t.dim() else t,
    lambda t: torch.cat([t, t], -1) if t.dim() else t,
    lambda t: t.transpose(0, -1) if t.dim() else t,
    lambda t: torch.empty(0),
    lambda t: torch.zeros(1),
    lambda t: torch.randn(5, 4000),
    lambda t: None,
    lambda t: [t],
    lambda t: 3.0,
)


def is_broken(value: Tensor) -> bool:
    if type(value) not in (Tensor, nn.Parameter) or not value.is_cpu or value.layout != torch.strided:
        return True
    return not has_memory(value)


def spoiled(chance: random.Random, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return chance.choice([None, 1, torch.zeros(2), torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.long)])
    if is_broken(value):
        return value  # torch itself may crash on more
    try:
        return chance.choice(OTHER if chance.random() < 0.75 else SAME)(value)
    except Exception:  # this cannot be done to this tensor
        return value


# One call: a layer, its input, what is done to it. Everything follows from a seed.


class Case:
    """A layer with everything that a call may be given, and the same on the eager engine."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        torch.manual_seed(seed)
        self.door = chance.choice(DOORS)
        name = chance.choice([*LIBRARY, own])
        layers = chance.choice([1, 1, 2])
        options: dict[str, Any] = {"num_layers": layers, "residual": layers > 1 and chance.random() < 0.5}
        options["bidirectional"] = self.door != "step" and chance.random() < 0.3
        self.B, self.T = chance.choice([1, 2, 5]), chance.choice([1, 4, 9])
        features = H if (cells.get(name) if isinstance(name, str) else name).lowered.uses_input_itself else D
        self.layer = Recurrent(name, features, H, engine="fused", **options).eval()
        self.exact = Recurrent(name, features, H, engine="eager", **options).eval()
        self.exact.load_state_dict(self.layer.state_dict())
        if chance.random() < 0.4:
            for one in (self.layer, self.exact):
                one.requires_grad_(False)
        if self.door == "step":
            self.x = torch.randn(self.B, features)
        else:
            self.x = torch.randn(self.B, self.T, features)
        scans = layers * len(self.layer.directions)
        states = tuple(torch.randn(scans, self.B, H) for _ in self.layer.cell.states)
        self.state: Any = None if chance.random() < 0.4 else states if len(states) > 1 else states[0]
        self.more: dict[str, Any] = {}
        if self.door != "step" and chance.random() < 0.3:
            self.more["lengths"] = torch.randint(0, self.T + 1, (self.B,))
        if self.door != "step" and chance.random() < 0.3:
            self.more["resets"] = torch.rand(self.B, self.T) < 0.3

    def parameter(self) -> tuple[dict[str, Any], dict[str, Any], str]:
        """Where one of the parameters is, in both layers."""
        index = self.chance.randrange(len(list(self.layer.cell_parameters())))
        ours, theirs = (list(layer.cell_parameters())[index] for layer in (self.layer, self.exact))
        family = self.chance.choice([f for f in "WUb" if len(getattr(ours, f))])
        both = set(getattr(ours, family)._parameters) & set(getattr(theirs, family)._parameters)
        name = self.chance.choice(sorted(both) or [""])
        return getattr(ours, family)._parameters, getattr(theirs, family)._parameters, name

    def run(self, layer: Recurrent) -> list[Any]:
        """What a layer answers."""
        if self.door == "step":
            output, state = layer.step(self.x, self.state)
        else:
            output, state = layer(self.x, self.state, **self.more)
        return [output, *(state if isinstance(state, tuple) else (state,))]


def break_parameter(case: Case) -> None:
    ours, theirs, name = case.parameter()
    if not name:
        return
    value = ours[name]
    chance = case.chance
    way = chance.randrange(6)
    new = spoiled(chance, value)
    if way == 0 and isinstance(new, Tensor):  # in place of the parameter
        ours[name] = new if new.requires_grad or not new.is_floating_point() else nn.Parameter(new, value.requires_grad)
        theirs[name] = ours[name]
    elif way == 1 and isinstance(new, Tensor) and (new.is_floating_point() or new.is_complex()):
        value.data = new
        theirs[name].data = new
    elif way == 2:
        value.untyped_storage().resize_(chance.choice([0, 8]))
        theirs[name].data = value.data
    elif way == 3:
        torch.utils.swap_tensors(value, nn.Parameter(torch.empty(value.shape, device="meta"), value.requires_grad))
        theirs[name] = value
    elif way == 4:
        if value.device.type != "cpu" or not has_memory(value):
            return  # torch itself would crash
        with torch.no_grad():
            value.mul_(0.5)
            theirs[name].mul_(0.5)
    else:
        del ours[name]
        theirs.pop(name, None)


def break_input(case: Case) -> None:
    places = ["x", "state", *case.more]
    place = case.chance.choice(places)
    if place == "x":
        case.x = spoiled(case.chance, case.x)
    elif place == "state":
        several = list(case.state) if isinstance(case.state, tuple) else [case.state]
        several[case.chance.randrange(len(several))] = spoiled(case.chance, several[0])
        case.state = tuple(several) if isinstance(case.state, tuple) else several[0]
    else:
        case.more[place] = spoiled(case.chance, case.more[place])


def break_modules(case: Case) -> None:
    """Other layers, settings, or hooks: in both."""
    way = case.chance.randrange(4)
    other = Recurrent(case.layer.cell, case.layer.input_size, H, case.layer.num_layers, engine="fused").eval()
    for one in (case.layer, case.exact):
        if way == 0:
            one.layers[-1]["fwd"] = other.layers[-1]["fwd"]
        elif way == 1:
            one.layers[0] = other.layers[0]
        elif way == 2:
            one.residual = not one.residual
        else:
            one.register_forward_hook(lambda _, __, result: (result[0] + 1, result[1]))


def done(function: Callable[[Case], None], case: Case) -> None:
    """Unless torch itself refuses it."""
    with contextlib.suppress(RuntimeError):
        function(case)


BREAKS = (break_parameter, break_parameter, break_input, break_input, break_input, break_modules)


def answers(case: Case, layer: Recurrent, mode: str) -> list[Any]:
    """What a layer answers while torch does something else as well."""
    if mode == "usual":
        return case.run(layer)
    if mode in ("no_grad", "inference"):
        with torch.no_grad() if mode == "no_grad" else torch.inference_mode():
            return case.run(layer)

    def function(x: Tensor) -> Tensor:
        given, case.x = case.x, x
        try:
            return case.run(layer)[0]
        finally:
            case.x = given

    x = case.x
    if mode == "trace":
        return [torch.jit.trace(function, torch.randn_like(x), check_trace=False)(x)]
    if mode == "make_fx":
        return [make_fx(function)(torch.randn_like(x))(x)]
    if mode == "functionalize":
        return [torch.func.functionalize(function)(x)]
    if mode == "vmap":
        return [torch.func.vmap(function)(torch.stack([x, 2 * x]))]
    if mode == "jvp":
        return list(torch.func.jvp(function, (x,), (torch.ones_like(x),)))
    with forward_ad.dual_level():
        return list(forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x)))))


MODES = ("trace", "make_fx", "functionalize", "vmap", "jvp", "dual")


def compared(got: list[Any], wanted: list[Any]) -> str:
    """Whether the answers are the same, or how they differ."""
    if len(got) != len(wanted):
        return f"DIFFERENT: {len(got)} results instead of {len(wanted)}"
    for a, b in zip(got, wanted, strict=True):
        if (a is None) != (b is None):
            return f"DIFFERENT: {a is None} {b is None}"
        if a is None:
            continue
        if a.shape != b.shape:
            return f"DIFFERENT: shape {tuple(a.shape)} instead of {tuple(b.shape)}"
        if type(a) is Tensor and type(b) is Tensor and a.is_cpu and a.layout == b.layout == torch.strided:
            a, b = a.detach(), b.detach()
            if a.dtype.is_floating_point and not torch.allclose(
                a.double(), b.double(), atol=2e-5, rtol=2e-4, equal_nan=True
            ):
                return f"DIFFERENT: by {float((a.double() - b.double()).abs().max()):.2g}"
    return "same"


def attempt(function: Callable[[], list[Any]]) -> list[Any] | Exception:
    try:
        return function()
    except (Exception, AssertionError) as error:
        return error


def called(case: Case, warm: bool) -> str:
    """The doors of call and step."""
    chance = case.chance
    if warm:
        with torch.no_grad():
            for _ in range(2):
                case.run(case.layer)
    mode = chance.choice(("usual", "no_grad", "inference")) if chance.random() < 0.7 else chance.choice(MODES)
    if mode in MODES:
        if chance.random() < 0.5:
            done(break_modules, case)
    else:
        for _ in range(chance.choice([1, 1, 2])):
            done(chance.choice(BREAKS), case)
    got = attempt(lambda: answers(case, case.layer, mode))
    if isinstance(got, Exception):
        return f"refused: {type(got).__name__}: {got}"
    got = [v.detach() if isinstance(v, Tensor) else v for v in got]
    wanted = attempt(lambda: answers(case, case.exact, mode))
    return "answered alone" if isinstance(wanted, Exception) else compared(got, wanted)


def backward(case: Case) -> str:
    """Something happens between the two passes, or to what was saved."""
    chance = case.chance
    case.layer.requires_grad_(True)
    case.exact.requires_grad_(True)
    case.x.requires_grad_(chance.random() < 0.5)
    number, count = chance.randrange(14), itertools.count()

    def unpack(t: Tensor) -> Any:
        is_index = t.dtype == torch.int64 and t.dim() == 3  # of torch's own gather, which believes what it saved
        return spoiled(chance, t) if next(count) == number and not is_index else t

    way = chance.randrange(4)
    unpacks = unpack if way == 0 else (lambda t: t)

    def loss(values: list[Any]) -> list[Any]:
        return [sum(value.square().sum() for value in values)]

    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t, unpacks
    ):  # of the layer, and not of torch's own functions
        ours = attempt(lambda: case.run(case.layer))
    ours = ours if isinstance(ours, Exception) else attempt(lambda: loss(ours))
    theirs = attempt(lambda: loss(case.run(case.exact)))
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        return "refused: before"
    if way == 1:
        done(break_parameter, case)
    elif way == 2:
        case.x.detach().untyped_storage().resize_(chance.choice([0, 8]))
    elif way == 3 and "lengths" in case.more:
        case.more["lengths"].numpy()[:] = chance.choice([-5, 10**9])  # valid ones torch would not notice either

    def gradients(layer: Recurrent, value: list[Any]) -> list[Any]:
        value[0].backward()
        return [p.grad for p in layer.parameters()]

    got = attempt(lambda: gradients(case.layer, ours))
    if isinstance(got, Exception):
        return f"refused: {type(got).__name__}: {got}"
    if way != 1:  # with other values of the parameters the engines may differ: what they saved differs
        wanted = attempt(lambda: gradients(case.exact, theirs))
        if way == 0 and next(count) > number:
            return "answered alone"  # what came back need not be what was saved
        return "answered alone" if isinstance(wanted, Exception) else compared(got, wanted)
    return "answered alone"


def operator(case: Case) -> str:
    """gatelab::scan and its backward pass, which believe nothing."""
    chance, parameters = case.chance, next(case.layer.cell_parameters())
    T, B = case.T, case.B
    size = parameters.input_size
    states = [torch.randn(B, H) for _ in case.layer.cell.states] * chance.choice([1, 1, 2])
    given: dict[str, Any] = {
        "x": torch.randn(T, B, size),
        "states": states,
        "parameters": [t.detach() for t in tensors_of(parameters)],
        "lengths": torch.randint(0, T + 1, (B,)) if chance.random() < 0.3 else None,
        "resets": (torch.rand(T, B) < 0.3) if chance.random() < 0.3 else None,
        "masks": [torch.rand(T, B, H) for _ in parameters.masks],
        "cell": parameters.document,
        "gates": chance.random() < 0.3,
        "output": chance.random() < 0.8,
    }
    name = chance.choice(["scan", "scan_taped", "scan_backward"])
    if name == "scan_backward":
        *_, tape = torch.ops.gatelab.scan_taped(**given)
        given |= {"tape": tape, "d_output": torch.randn(T, B, H) if chance.random() < 0.8 else None, "d_states": None}
        given |= {"d_gates": None, "wanted": [chance.random() < 0.8 for _ in range(1 + len(given["parameters"]))]}
        if chance.random() < 0.3:
            tape.fill_(chance.choice([torch.nan, -1.0, 1e30, 7.0]))
    for _ in range(chance.choice([1, 1, 2])):
        key = chance.choice(list(given))
        value = given[key]
        if key == "cell":
            given[key] = chance.choice([value[:-2], "", "{}", value.replace("mul", "add"), value.replace("[", "{", 1)])
        elif isinstance(value, bool):
            given[key] = not value
        elif isinstance(value, list):
            several = list(value)
            if several and chance.random() < 0.7:
                place = chance.randrange(len(several))
                several[place] = (
                    spoiled(chance, several[place]) if isinstance(several[place], Tensor) else not several[place]
                )
            elif chance.random() < 0.5:
                several = several[:-1]
            else:
                several += [torch.zeros(B, H)] if key != "wanted" else [True] * 5
            given[key] = several
        else:
            given[key] = spoiled(chance, value)
    got = attempt(lambda: list(getattr(torch.ops.gatelab, name)(**given)))
    return f"refused: {type(got).__name__}: {got}" if isinstance(got, Exception) else "answered alone"


def outcome(seed: int) -> str:
    """What one call comes to."""
    case = Case(seed)
    if case.door == "backward":
        return backward(case)
    return operator(case) if case.door == "operator" else called(case, case.chance.random() < 0.6)


# Many calls.


def child(seeds: list[int], pipe: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    faulthandler.enable()
    for seed in seeds:
        pipe.send((seed, None))
        try:
            said = outcome(seed)
        except BaseException:  # a fault of this script's
            said = "SCRIPT: " + traceback.format_exc()
        pipe.send((seed, said))
    pipe.close()


def several(seeds: list[int]) -> dict[int, str]:
    """Outcomes of all of these calls: a process that dies is followed by another one."""
    outcomes: dict[int, str] = {}
    left = list(seeds)
    while left:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=child, args=(left, theirs))
        process.start()
        theirs.close()
        current = None
        while True:
            try:
                if not ours.poll(LIMIT * (5 if current is None else 1)):
                    process.kill()
                    outcomes[current if current is not None else left[0]] = "HUNG"
                    break
                current, said = ours.recv()
                if said is not None:
                    outcomes[current] = said
            except EOFError:
                process.join()
                if process.exitcode and current is not None:
                    outcomes[current] = f"DIED: exit code {process.exitcode}"
                break
        process.join()
        left = [seed for seed in seeds if seed not in outcomes]
    return outcomes


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", type=int, help="one call, in this process")
    options = parser.parse_args()
    base = options.seed * 1_000_000
    if options.only is not None:
        print(outcome(base + options.only))
        return 0
    begin, found, counts = time.monotonic(), [], Counter()
    for first in range(0, options.count, TOGETHER):
        seeds = [base + first + k for k in range(min(TOGETHER, options.count - first))]
        for seed, said in several(seeds).items():
            kind = said.partition(":")[0]
            counts[Case(seed).door, kind] += 1
            if kind not in ("same", "refused", "answered alone"):
                found.append((seed - base, Case(seed).door, said))
                print(*found[-1], flush=True)
        print(f"{first + len(seeds)} calls, {len(found)} faults, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    for door in DOORS:
        print(f"{door:10}", ", ".join(f"{n} {kind}" for (each, kind), n in sorted(counts.items()) if each == door))
    print(f"{options.count} calls, seed {options.seed}: {len(found)} crashes, hangs and other answers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
