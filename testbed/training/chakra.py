"""Writes MLCommons Chakra execution traces; testbed/workload/chakra.proto has the format. It needs no other package."""

import os

ALL_REDUCE, ALL_TO_ALL = 0, 6  # CollectiveCommType
COMPUTATION, COLLECTIVE = 4, 7  # NodeType


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


class Trace:
    """What one rank does. Computations follow each other; collectives run beside them."""

    def __init__(self):
        self.nodes = []
        self.last = None  # the node that the next computation waits for

    def add(self, name, kind, after, attributes):
        node = number(1, len(self.nodes)) + text(2, name.encode()) + number(3, kind)
        after = sorted({a for a in after if a is not None})
        if after:
            node += text(5, b"".join(varint(a) for a in after))
        for key, value in attributes.items():
            node += text(10, text(1, key.encode()) + number(9, value))
        self.nodes.append(node)
        return len(self.nodes) - 1

    def compute(self, name, operations, size, after=()):
        """Adds a computation of so many floating-point operations on so many bytes of memory."""
        attributes = {"num_ops": operations, "tensor_size": size}
        self.last = self.add(name, COMPUTATION, [self.last, *after], attributes)

    def collective(self, name, kind, size, after):
        """Adds a collective of all ranks to which each contributes so many bytes."""
        return self.add(name, COLLECTIVE, after, {"comm_type": kind, "comm_size": size})

    def write(self, prefix, ranks):
        """Writes the trace of each rank. All ranks do the same: the files are one file under several names."""
        messages = [text(1, b"0.0.4"), *self.nodes]
        first = f"{prefix}.0.et"
        with open(first, "wb") as file:
            for m in messages:
                file.write(varint(len(m)) + m)
        for rank in range(1, ranks):
            name = f"{prefix}.{rank}.et"
            if os.path.exists(name):
                os.remove(name)
            os.link(first, name)
