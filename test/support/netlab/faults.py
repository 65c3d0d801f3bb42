"""Which frames a host does not get: from whom, and how many of them. One small filter on each port of the switch.

Classic BPF under tc's clsact: it needs no privilege beyond the lab's own, and is there where netem and nftables are
not. The filters are on the switch, so a host can neither see nor change them, and a dropped frame is lost silently,
as on a broken path.
"""

# struct sock_filter: (code, jump if true, jump if false, constant)
LOAD_SENDER = (0x28, 0, 0, 10)  # the last two bytes of the sender's MAC address are the host's number
LOAD_RANDOM = (0x20, 0, 0, 0xFFFFF038)  # a random number below 2^32
LOAD_LENGTH = (0x80, 0, 0, 0)  # of the frame, its header too
PASS, DROP = (0x06, 0, 0, 0), (0x06, 0, 0, 2)  # TC_ACT_OK, TC_ACT_SHOT


def jump_equal(value, otherwise):
    return (0x15, 0, otherwise, value)


def jump_at_least(value, then):
    return (0x35, then, 0, value)


def jump_at_most(value, then):
    return (0x25, 0, then, value)


def program(losses):
    """The filter of a port: `losses` maps numbers of sending hosts to (the part of their frames that is lost, and above
    how many bytes frames are meant)."""
    instructions = []
    for sender, (loss, above) in sorted(losses.items()):
        body = [DROP]
        if loss < 1:
            body = [LOAD_RANDOM, jump_at_least(int(loss * 2**32), len(body)), *body]
        if above:
            body = [LOAD_LENGTH, jump_at_most(above, len(body)), *body]
        if loss > 0:
            instructions += [LOAD_SENDER, jump_equal(sender, len(body)), *body]
    return instructions + [PASS]


def tc_command(port, losses):
    """A line for `tc -batch` that sets the filter of `port`, in the place of the one before."""
    code = program(losses)
    text = ",".join([str(len(code)), *(" ".join(map(str, instruction)) for instruction in code)])
    return f"filter replace dev {port} egress prio 1 handle 1 protocol all bpf da bytecode '{text}'"
