"""resnet_reference.py DEPTH SEED FOLDER: what a ResNet in Python makes of FOLDER/input.pt with FOLDER/weights.pt.

Fails unless the weights are, bit for bit, those that Python draws from the seed."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/resnet"))

from resnet_peer import ResNet  # noqa: E402


def main():
    depth, seed, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    x, y = torch.load(folder / "input.pt")
    weights = dict(torch.load(folder / "weights.pt"))
    torch.manual_seed(seed)
    network = ResNet(depth, 10)
    differing = [name for name, tensor in network.state_dict().items() if not torch.equal(tensor, weights[name])]
    assert not differing, f"seed {seed} gives other {differing}"
    network.load_state_dict(weights)
    logits = network(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    loss.backward()
    network.eval()
    gradients = (parameter.grad for parameter in network.parameters())
    torch.save((logits.detach(), loss.detach(), *gradients, network(x).detach()), folder / "output.pt")


if __name__ == "__main__":
    main()
