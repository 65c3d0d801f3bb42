"""What examples/gpt trains with, for Python: its first weights, its text, the stretches of a step, its learning rates.
Each is a function of the flags alone."""
import json
import math
import pathlib

import torch

WORD = 2**32 - 1


def weights_of(path):
    """The tensors of a file of safetensors, which must all be float32, by name."""
    file = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    weights = {}
    for name, about in json.loads(file[8:begin]).items():
        if name == "__metadata__":
            continue
        if about["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is {about['dtype']}, and F32 was expected")
        first, end = about["data_offsets"]
        numbers = torch.frombuffer(bytearray(file[begin + first:begin + end]), dtype=torch.float32)
        weights[name] = numbers.view(about["shape"])
    return weights


def text_of(path):
    """The text as numbers (int64), and how many characters there are: the bytes that occur, in their order."""
    text = pathlib.Path(path).read_bytes()
    alphabet = sorted(set(text))
    number = {character: i for i, character in enumerate(alphabet)}
    return torch.tensor([number[each] for each in text]), len(alphabet)


def seeds(words, count):
    """What std::seed_seq gives for these words, from 623 numbers on: [rand.util.seedseq] of the standard of C++."""
    made = [0x8b8b8b8b] * count
    near, far = (count - 11) // 2, (count - 11) // 2 + 11

    def mixed(number):
        return number ^ number >> 27

    for k in range(count):
        first = 1664525 * mixed(made[k] ^ made[(k + near) % count] ^ made[k - 1]) & WORD
        word = len(words) if k == 0 else k + words[k - 1] if k <= len(words) else k
        second = first + word & WORD
        made[(k + near) % count] = made[(k + near) % count] + first & WORD
        made[(k + far) % count] = made[(k + far) % count] + second & WORD
        made[k] = second
    for k in range(count):
        third = 1566083941 * mixed(made[k] + made[(k + near) % count] + made[k - 1] & WORD) & WORD
        fourth = third - k & WORD
        made[(k + near) % count] ^= third
        made[(k + far) % count] ^= fourth
        made[k] = fourth
    return made


def first_of_mt19937_64(words):
    """The first number of a std::mt19937_64 that a std::seed_seq of these words has seeded."""
    halves = seeds([word & WORD for word in words], 2 * 312)
    state = [halves[2 * i] | halves[2 * i + 1] << 32 for i in (0, 1, 156)]
    joined = state[0] & ~0x7fffffff | state[1] & 0x7fffffff
    drawn = state[2] ^ joined >> 1 ^ (0xb5026f5aa96619e9 if joined & 1 else 0)
    drawn ^= drawn >> 29 & 0x5555555555555555
    drawn ^= drawn << 17 & 0x71d67fffeda60000
    drawn ^= drawn << 37 & 0xfff7eee000000000
    return drawn ^ drawn >> 43


def begins_of(seed, step, stretches, places):
    """Where these stretches of a step's global batch begin in a text with so many places (corpus.cc)."""
    return [first_of_mt19937_64((seed, step, i)) % places for i in stretches]


def rate_of(step, steps, top):
    """The learning rate of a step: a warm-up from a tenth, then half a cosine down to a tenth (train.cc)."""
    warm = max(1, steps // 20)
    if step < warm:
        return top * (0.1 + 0.9 * step / warm)
    return top * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - warm) / steps)) / 2)
