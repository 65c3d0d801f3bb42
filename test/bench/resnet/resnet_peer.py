"""The ResNet example in plain Python, under a launcher: torch's DistributedDataParallel, on gloo or on dtrain.

It takes the example's flags. With --files it trains on the same images in the same order from the same first weights,
so that its losses are the example's; else on random ones, made once, so that drawing them takes it no time."""
import argparse
import json
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
RECORD = 1 + 3 * 32 * 32
MASK = 2**64 - 1


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, bottleneck, inputs, width, stride):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if bottleneck else [
            (inputs, width, 3, stride), (width, width, 3, 1)]
        self.depth = len(sizes)
        for i, size in enumerate(sizes, 1):
            setattr(self, f"conv{i}", conv(*size))
            setattr(self, f"bn{i}", nn.BatchNorm2d(size[1]))
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.depth:
                y = torch.relu(y)
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self, depth, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels, bottleneck = 64, depth >= 50
        for number, blocks in enumerate(STAGES[depth]):
            width, stage = 64 << number, []
            for i in range(blocks):
                stage.append(Block(bottleneck, channels, width, 2 if number > 0 and i == 0 else 1))
                channels = 4 * width if bottleneck else width
            setattr(self, f"layer{number + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Random:
    """As dtrain's BatchSampler draws: SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        while (value := self.next()) >= MASK - MASK % bound:
            pass
        return value % bound


def order(count, seed, epoch):
    random = Random((Random(seed).next() + epoch) & MASK)
    places = list(range(count))
    for i in range(count - 1, 0, -1):
        j = random.below(i + 1)
        places[i], places[j] = places[j], places[i]
    return places


def read_files(folder):
    raw = b"".join((folder / f"data_batch_{i}.bin").read_bytes() for i in range(1, 6))
    table = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, RECORD)
    return table[:, 1:].reshape(-1, 3, 32, 32), table[:, 0].long()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--synthetic", type=int, default=1280)
    parser.add_argument("--files", type=pathlib.Path)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--strong", action="store_true")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--loss-csv", type=pathlib.Path)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--backend", default="gloo")
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    if args.backend == "dtrain":
        import dtrain  # noqa: F401
    dist.init_process_group(args.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    precision = torch.float64 if args.double else torch.float32
    network = ResNet(args.depth, args.classes).to(precision)
    if args.files:
        pixels, labels = read_files(args.files)
    else:
        pixels = torch.randint(256, (args.synthetic, 3, args.image_size, args.image_size), dtype=torch.uint8)
        labels = torch.arange(args.synthetic) % args.classes
    model = nn.parallel.DistributedDataParallel(network)
    adam = torch.optim.Adam(network.parameters(), args.lr)
    batch = args.batch if args.strong else args.batch * ranks
    losses, rates = [], []
    for epoch in range(args.epochs):
        places = torch.tensor(order(len(labels), args.seed, epoch))
        dist.barrier()
        begin, steps = time.perf_counter(), len(labels) // batch
        for step in range(steps):
            mine = places[step * batch:][batch * rank // ranks:batch * (rank + 1) // ranks]
            x = pixels[mine].float()
            if x.size(3) != args.image_size:
                x = F.interpolate(x, (args.image_size, args.image_size), mode="bilinear", align_corners=False)
            logits = model(((x - 127.5) / 64).to(precision))
            loss = F.cross_entropy(logits, labels[mine], reduction="sum")
            adam.zero_grad()
            (loss * (ranks / batch)).backward()
            adam.step()
            sums = torch.stack([loss.detach(), (logits.argmax(1) == labels[mine]).sum()]).double()
            dist.all_reduce(sums)
            losses.append(sums[0].item() / batch)
        rates.append(steps * batch / (time.perf_counter() - begin))
    if rank == 0:
        rate = statistics.median(rates[1:] or rates)
        print(f"{rate:.1f} images/s", flush=True)
        if args.json:
            args.json.write_text(json.dumps({"ranks": ranks, "images_per_second": rate}))
        if args.loss_csv:
            args.loss_csv.write_text("step,loss\n" + "".join(f"{i},{loss:.9g}\n" for i, loss in enumerate(losses)))
        if args.save:
            torch.save(network.state_dict(), args.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
