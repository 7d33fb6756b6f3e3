"""Weights of PyTorch networks and the values that PyTorch gives for them: tests/data/import/.

    pip install torch numpy safetensors; python tests/reference/make_import.py

tanh.safetensors  torch.nn.Sequential 2-20x3-1, names 0.weight, 2.weight, ...
silu.npz          an FNN as DeepXDE's PyTorch backend names it, linears.0.weight, ..., 2-20x3-2, deflated
sine.safetensors  2-20x3-1 with sin(3 (W h + b)) in the hidden layers (a SIREN), names layers.0.weight, ...
*.csv             50 points and, in f64 by torch.autograd, values and derivatives up to order 3

Everything is f64. Sines of torch and of other libraries differ by units in the last place, so the comparison is made
against the condition of each value and not bit by bit.
"""
import os

import numpy as np
import safetensors.torch
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(20240607)
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "import")


class Net(torch.nn.Module):
    def __init__(self, sizes, activation, name):
        super().__init__()
        layers = [torch.nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
        setattr(self, name, torch.nn.ModuleList(layers))
        self.layers_name, self.activation = name, activation

    def forward(self, h):
        layers = getattr(self, self.layers_name)
        for layer in layers[:-1]:
            h = self.activation(layer(h))
        return layers[-1](h)


def derivatives(net, points, names):
    """Columns of all derivatives of all outputs up to order 3, each by autograd of the one below it."""
    x = torch.tensor(points[:, 0:1], requires_grad=True)
    t = torch.tensor(points[:, 1:2], requires_grad=True)
    columns = {"x": points[:, 0], "t": points[:, 1]}

    def grad(y, by):
        return torch.autograd.grad(y, by, torch.ones_like(y), create_graph=True)[0]

    out = net(torch.cat([x, t], dim=1))
    for k, name in enumerate(names):
        found = {"": out[:, k:k + 1]}
        for word in ["x", "t", "xx", "xt", "tt", "xxx", "xxt"]:
            found[word] = grad(found[word[:-1]], x if word[-1] == "x" else t)
        for word, value in found.items():
            columns[name + ("_" + word if word else "")] = value.detach().numpy()[:, 0]
    return columns


def write(path, columns):
    with open(os.path.join(folder, path), "w", encoding="ascii") as file:
        file.write(",".join(columns) + "\n")
        for row in zip(*columns.values()):
            file.write(",".join("%.17g" % number for number in row) + "\n")


points = np.random.default_rng(7).uniform([-1, 0], [1, 2], size=(50, 2))

net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 20), torch.nn.Tanh(),
                          torch.nn.Linear(20, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
safetensors.torch.save_file(net.state_dict(), os.path.join(folder, "tanh.safetensors"))
write("tanh.csv", derivatives(net, points, ["u"]))

net = Net([2, 20, 20, 20, 2], torch.nn.functional.silu, "linears")
np.savez_compressed(os.path.join(folder, "silu.npz"), **{k: v.numpy() for k, v in net.state_dict().items()})
write("silu.csv", derivatives(net, points, ["v", "u"]))

net = Net([2, 20, 20, 20, 1], lambda z: torch.sin(3 * z), "layers")
safetensors.torch.save_file(net.state_dict(), os.path.join(folder, "sine.safetensors"))
write("sine.csv", derivatives(net, points, ["u"]))
