#!/usr/bin/env python3
"""Train a small network on all ranks of an MPI job, and print a JSON line per step.

--job dense    data parallel: every rank has the whole network. Gradients are averaged in buckets, last layer first, each
               by an all-reduce that starts as soon as backward has filled the bucket, as PyTorch's DDP does.
--job experts  a mixture of experts: every rank has one expert. Two all-to-alls a layer carry tokens to their expert and
               back, forward and backward; all-reduces average what ranks share.

Lines, all from rank 0: "start"; a "step" each, with "at" in seconds since the start line, its "seconds" and the mean
"loss" of all ranks; "end", with "sha256" of all ranks' weights. The exit status is 1 if ranks disagree about the
weights that they share. The same arguments give the same weights, to the bit, whatever happens to the network.

--trace PREFIX writes what a rank does as MLCommons Chakra traces: PREFIX.RANK.et for each of --trace-ranks ranks. With it
one process is enough: the job's ranks do the same work.
"""

import argparse
import hashlib
import json
import sys
import time

import numpy
import torch
from mpi4py import MPI

import chakra


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--job", choices=["dense", "experts"], default="dense")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--layers", type=int, default=4, help="hidden layers (default 4)")
    p.add_argument("--width", type=int, default=128, help="neurons of a hidden layer (default 128)")
    p.add_argument("--batch", type=int, default=64, help="samples per rank and step (default 64)")
    p.add_argument("--bucket", type=int, default=100_000, help="bytes of gradients per all-reduce (default 100000)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--trace", metavar="PREFIX", help="write Chakra traces PREFIX.RANK.et")
    p.add_argument("--trace-ranks", type=int, default=0, metavar="N", help="ranks of the traces (default: the job's)")
    return p.parse_args()


class AllToAll(torch.autograd.Function):
    """Sends the i-th part of a tensor to rank i; backward does the same with the gradients."""

    @staticmethod
    def forward(ctx, tokens, job):
        ctx.job = job
        return job.exchange(tokens)

    @staticmethod
    def backward(ctx, grad):
        return ctx.job.exchange(grad), None


class Experts(torch.nn.Module):
    """A layer of one expert per rank. A token goes to one expert; experts take equally many tokens of each rank."""

    def __init__(self, job, width):
        super().__init__()
        self.job = job
        self.gate = torch.nn.Linear(width, job.ranks)
        with torch.random.fork_rng():
            torch.manual_seed(1000 + job.rank)
            self.expert = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
        for p in self.expert.parameters():
            p.local = True

    def forward(self, x):
        weights = torch.softmax(self.gate(x), 1)
        share = len(x) // self.job.ranks
        order = torch.argsort(torch.argmax(weights, 1), stable=True)[: share * self.job.ranks]
        to = torch.arange(len(order)) // max(share, 1)
        back = AllToAll.apply(self.expert(AllToAll.apply(x[order], self.job)), self.job)
        return x.index_add(0, order, back * weights[order, to][:, None])


class Job:
    """The ranks' network and its weights."""

    def __init__(self, args, comm):
        self.comm, self.rank, self.ranks = comm, comm.Get_rank(), comm.Get_size()
        self.trace = chakra.Trace() if args.trace else None
        torch.manual_seed(args.seed)
        features = 32
        layers = [torch.nn.Linear(features, args.width), torch.nn.ReLU()]
        for i in range(args.layers):
            dense = args.job == "dense" or i % 2 == 0
            layers += [torch.nn.Linear(args.width, args.width) if dense else Experts(self, args.width), torch.nn.ReLU()]
        self.net = torch.nn.Sequential(*layers, torch.nn.Linear(args.width, 1))
        self.teacher = torch.nn.Sequential(torch.nn.Linear(features, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.shared = [p for p in self.net.parameters() if not hasattr(p, "local")]
        self.data = torch.Generator()
        self.batch, self.seed, self.features = args.batch, args.seed, features
        self.fill_buckets(args.bucket)
        if self.trace:
            self.watch()

    def fill_buckets(self, most):
        """Deals the shared parameters, the last first, to buckets of at most so many bytes, or of one parameter."""
        self.buckets = []
        for p in reversed(self.shared):
            size = p.numel() * p.element_size()
            if not self.buckets or self.buckets[-1]["bytes"] + size > most:
                self.buckets.append({"bytes": 0, "parameters": []})
            bucket = self.buckets[-1]
            bucket["bytes"] += size
            bucket["parameters"].append(p)
            p.register_hook(lambda grad, p=p, bucket=bucket: self.filled(bucket, p, grad))

    def filled(self, bucket, parameter, grad):
        """Backward has a gradient; the last one of a bucket starts the bucket's all-reduce."""
        bucket["grads"][id(parameter)] = grad
        if len(bucket["grads"]) == len(bucket["parameters"]):
            flat = torch.cat([bucket["grads"][id(p)].reshape(-1) for p in bucket["parameters"]]).numpy()
            bucket["sum"] = numpy.empty_like(flat)
            bucket["sent"] = flat
            self.running.append(self.comm.Iallreduce(flat, bucket["sum"]))
            if self.trace:
                self.reduces.append(self.trace.collective("all-reduce", chakra.ALL_REDUCE, flat.nbytes, [self.trace.last]))
        MPI.Request.Testall(self.running)  # lets earlier all-reduces go on

    def exchange(self, tokens):
        """Sends equal parts of a tensor to all ranks, and returns what they sent."""
        sent = tokens.detach().contiguous().numpy()
        received = numpy.empty_like(sent)
        self.comm.Alltoall(sent, received)
        if self.trace:
            self.trace.last = self.trace.collective("all-to-all", chakra.ALL_TO_ALL, sent.nbytes, [self.trace.last])
        return torch.from_numpy(received)

    def watch(self):
        """Has the trace get the operations of each linear layer, forward and backward."""
        def forward(module, inputs, output):
            self.trace.compute("forward", 2 * inputs[0].shape[0] * module.weight.numel(), module.weight.nbytes)

        def backward(module, grads, _):
            self.trace.compute("backward", 4 * grads[0].shape[0] * module.weight.numel() if grads[0] is not None else 0,
                               2 * module.weight.nbytes)

        for m in self.net.modules():
            if isinstance(m, torch.nn.Linear):
                m.weight.nbytes = m.weight.numel() * m.weight.element_size()
                m.register_forward_hook(forward)
                m.register_full_backward_hook(backward)

    def step(self, number):
        """Makes a step and returns the mean loss of all ranks."""
        self.data.manual_seed((self.seed * 1_000_003 + number) * 4099 + self.rank)
        x = torch.randn(self.batch, self.features, generator=self.data)
        with torch.no_grad():
            y = self.teacher(x)
        self.running, self.reduces = [], []
        for b in self.buckets:
            b["grads"] = {}
        self.sgd.zero_grad()
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        MPI.Request.Waitall(self.running)
        for b in self.buckets:
            at = 0
            for p in b["parameters"]:
                mean = torch.from_numpy(b["sum"][at : at + p.numel()]) / self.ranks
                p.grad = mean.view_as(p)
                at += p.numel()
        self.sgd.step()
        if self.trace:
            size = sum(b["bytes"] for b in self.buckets)
            self.trace.compute("optimizer", size, 3 * size, self.reduces)
        return self.comm.allreduce(loss.item()) / self.ranks

    def weights(self):
        """Returns a hash of all ranks' weights, and whether all have the same shared ones."""
        def digest(parameters):
            h = hashlib.sha256()
            for p in parameters:
                h.update(p.detach().numpy().tobytes())
            return h.hexdigest()

        shared = self.comm.allgather(digest(self.shared))
        everything = self.comm.allgather(digest(self.net.parameters()))
        return hashlib.sha256("".join(everything).encode()).hexdigest(), len(set(shared)) == 1


def main():
    args = arguments()
    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    job = Job(args, comm)

    def say(event, **values):
        if job.rank == 0:
            print(json.dumps({"event": event, **values}), flush=True)

    comm.Barrier()
    begun = time.monotonic()
    say("start", job=args.job, ranks=job.ranks, parameters=sum(p.numel() for p in job.net.parameters()),
        buckets=[b["bytes"] for b in job.buckets])
    for number in range(1, args.steps + 1):
        before = time.monotonic()
        loss = job.step(number)
        now = time.monotonic()
        say("step", step=number, at=round(now - begun, 6), seconds=round(now - before, 6), loss=loss)
    sha256, agree = job.weights()
    say("end", sha256=sha256, agree=agree)
    if job.trace and job.rank == 0:
        job.trace.write(args.trace, args.trace_ranks or job.ranks)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
