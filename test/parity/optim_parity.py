#!/usr/bin/env python3
"""ShardedOptimizer makes the updates of torch.optim, schedules have the rates of torch.optim.lr_scheduler, and
GradScaler has the scales of torch.amp.GradScaler.

usage: optim_parity.py OPTIM_STEPS
"""
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from torch.optim import lr_scheduler

STEPS, RATES = 8, 60  # as in optim_steps.cc
SHAPES = [(40, 24), (40,), (24, 48), (1, 1), (7, 5, 3)]

# The largest difference of values around 1, after all steps.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 0}

ALGORITHMS = {
    "sgd": lambda p: [torch.optim.SGD(p, lr=0.1)],
    "sgd momentum": lambda p: [torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)],
    "sgd nesterov": lambda p: [torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)],
    "adam": lambda p: [torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)],
    "adamw": lambda p: [torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)],
    "adamw double": lambda p: [torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)],
    "adamw bfloat16": lambda p: [torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, fused=True)],
    "adagrad": lambda p: [torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.01,
                                              initial_accumulator_value=0.1)],
    "muon": lambda p: muon(p, adamw_lr=0.01),
    "muon match_rms_adamw": lambda p: muon(p, nesterov=False, adjust_lr_fn="match_rms_adamw"),
    "muon spectral_unclamped": lambda p: muon(p, ns_steps=3, adjust_lr_fn="spectral_unclamped"),
}


def muon(parameters, adamw_lr=1e-3, **options):
    return [torch.optim.Muon([p for p in parameters if p.dim() == 2], lr=0.02, **options),
            torch.optim.AdamW([p for p in parameters if p.dim() != 2], lr=adamw_lr)]


def is_known(name):
    """Whether this torch has it: the adjustment "spectral_unclamped" came after 2.11."""
    try:
        ALGORITHMS[name]([torch.zeros(shape) for shape in SHAPES])
    except ValueError as error:
        if name != "muon spectral_unclamped" or torch.__version__ >= "2.15":
            raise
        print(f"SKIP {name}: torch {torch.__version__}: {error}")
        return False
    return True


def check_updates(name, saved):
    before, gradients, after = (saved[f"{name} {what}"] for what in ["before", "gradients", "after"])
    sizes = [torch.Size(shape).numel() for shape in SHAPES]
    parameters = [part.clone().view(shape) for part, shape in zip(before.split(sizes), SHAPES)]
    optimizers = ALGORITHMS[name](parameters)
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients[step].split(sizes)):
            parameter.grad = gradient.view_as(parameter).clone()
        for optimizer in optimizers:
            if step == STEPS // 2:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
            optimizer.step()
    theirs = torch.cat([parameter.flatten() for parameter in parameters])
    largest = (theirs.double() - after.double()).abs().max().item()
    moved = (theirs.double() - before.double()).abs().max().item()
    print(f"{name}: {largest:.2g} apart after moving by {moved:.2g}")
    assert moved > 0.01, "nothing has moved"
    assert largest <= TOLERANCE[before.dtype], f"{name}: {largest} is above {TOLERANCE[before.dtype]}"


def rates_of(make, metrics=None):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = make(optimizer)
    rates = []
    for step in range(RATES):
        if metrics is None:
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        else:
            schedule.step(metrics[step].item())
            rates.append(optimizer.param_groups[0]["lr"])
        if step == RATES - 2 and isinstance(schedule, lr_scheduler.OneCycleLR):
            rates.append(optimizer.param_groups[0]["lr"])
            break  # it refuses to go on
    return torch.tensor(rates, dtype=torch.float64)


SCHEDULES = {
    "linear": lambda o: lr_scheduler.LinearLR(o, start_factor=0.25, total_iters=20),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=59, eta_min=0.1),
    "step": lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.5),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=RATES, div_factor=10, final_div_factor=50,
                                                   cycle_momentum=False),
    "one cycle linear": lambda o: lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=RATES, pct_start=0.5,
                                                          anneal_strategy="linear", cycle_momentum=False),
    "warm-up": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, start_factor=0.1, total_iters=10), lr_scheduler.CosineAnnealingLR(o, T_max=49)],
        milestones=[10]),
}
PLATEAUS = {
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=0.01),
    "plateau largest": lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="max", factor=0.5, patience=3, threshold=0.02,
                                                                threshold_mode="abs"),
}


def check_rates(name, saved):
    make = SCHEDULES.get(name) or PLATEAUS[name]
    theirs = rates_of(make, saved.get(f"metrics {name}"))
    apart = (theirs - saved[f"rates {name}"]).abs().max().item()
    print(f"{name}: rates {apart:.2g} apart, from {theirs.max():.3g} to {theirs.min():.3g}")
    assert apart < 1e-12, f"{name}: {theirs} and {saved[f'rates {name}']}"
    assert theirs.max() > theirs.min()


def check_scales(saved):
    parameter = torch.zeros(4)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    scaler.scale(torch.zeros(1))  # it has no scale before
    for step in range(RATES):
        parameter.grad = torch.full((4,), scaler.get_scale())
        if saved["found"][step]:
            parameter.grad[1] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == saved["scales"][step].item(), f"step {step}"
        assert parameter[0] == saved["scaled values"][step], f"step {step}"
    assert saved["scales"].max() > 1024 > saved["scales"].min()


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "saved"
        subprocess.run([pathlib.Path(sys.argv[1]).resolve(), file], check=True, timeout=100)
        saved = dict(torch.load(file, weights_only=False).items())
    for name in filter(is_known, ALGORITHMS):
        check_updates(name, saved)
    for name in [*SCHEDULES, *PLATEAUS]:
        check_rates(name, saved)
    check_scales(saved)
    return 0


if __name__ == "__main__":
    sys.exit(main())
