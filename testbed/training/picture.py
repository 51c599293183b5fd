#!/usr/bin/env python3
"""Draw the step times of training runs, with the cuts that happened meanwhile, and print a table about them.

    picture.py --out steps.svg NAME=STEPS,RECORD...

STEPS is what train.py printed; RECORD, which may be left out, what `ethereal live run --record` wrote. Both must count
from the start line (--start-line '"start"'). The table has, in ms, the median, 99th percentile and longest step (without
the first, which connects the ranks), and the mean time lost per cut: by how much the steps from a cut until its repair
took longer than as many median steps without a cut.
"""

import argparse
import json
import math
import statistics

WIDTH, PANEL, LEFT, TOP = 900, 130, 60, 40


class Run:
    def __init__(self, argument):
        self.name, _, files = argument.partition("=")
        steps, _, record = files.partition(",")
        lines = [json.loads(line) for line in open(steps)]
        self.steps = [(s["at"] - s["seconds"], s["at"]) for s in lines if s["event"] == "step" and s["step"] > 1]
        if not self.steps:
            raise SystemExit(f"{steps}: no step after the first")
        self.cuts = []  # [from, until], s
        open_cuts = {}
        for e in map(json.loads, open(record) if record else []):
            at = e["t_us"] / 1e6
            if e["kind"] == "cut":
                open_cuts[e["where"]] = cut = [at, self.steps[-1][1]]
                self.cuts.append(cut)
            elif e["kind"] == "restore" and e["where"] in open_cuts:
                open_cuts.pop(e["where"])[1] = at

    def times(self):
        return [until - begin for begin, until in self.steps]

    def during(self, cut):
        return [b - a for a, b in self.steps if b > cut[0] and a < cut[1]]

    def row(self):
        times = sorted(self.times())
        quiet = [b - a for a, b in self.steps if not any(b > c[0] and a < c[1] for c in self.cuts)]
        usual = statistics.median(quiet or times)
        lost = [sum(x - usual for x in self.during(c)) for c in self.cuts]
        p99 = times[min(len(times) - 1, math.ceil(0.99 * len(times)) - 1)]
        cells = [statistics.median(times), p99, times[-1]] + ([statistics.mean(lost)] if lost else [])
        cells = [f"{1000 * c:.0f}" for c in cells] + ["-"] * (not lost)
        return f"| {self.name} | {len(times)} | " + " | ".join(cells) + " |"


def nice(top):
    """Returns a round number of seconds, at least top."""
    unit = 10 ** math.floor(math.log10(top))
    return next(unit * m for m in (1, 2, 5, 10) if unit * m >= top)


def draw(runs):
    end = max(r.steps[-1][1] for r in runs)
    most = nice(max(max(r.times()) for r in runs))
    height = TOP + len(runs) * PANEL + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">Step time in s; shaded: an uplink is cut</text>']

    def x(t):
        return LEFT + (WIDTH - LEFT - 20) * t / end

    for i, r in enumerate(runs):
        bottom = TOP + (i + 1) * PANEL - 20

        def y(seconds, bottom=bottom):
            return bottom - (PANEL - 45) * seconds / most

        out.append(f'<text x="{LEFT}" y="{bottom - PANEL + 40}" font-weight="bold">{r.name}</text>')
        for begin, until in r.cuts:
            out.append(f'<rect x="{x(begin):.1f}" y="{y(most):.1f}" width="{x(until) - x(begin):.1f}" height="{bottom - y(most):.1f}" '
                       'fill="#f5b7b1"/>')
        for level in (0, most / 2, most):
            out.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#ccc"/>'
                       f'<text x="{LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:g}</text>')
        for begin, until in r.steps:  # a bar from a step's begin to its end, as high as it is long
            out.append(f'<rect x="{x(begin):.1f}" y="{y(until - begin):.1f}" width="{max(1, x(until) - x(begin) - 0.5):.1f}" '
                       f'height="{bottom - y(until - begin):.1f}" fill="#2471a3" fill-opacity="0.8"/>')
    step = nice(end / 8)
    for n in range(int(end / step) + 1):
        out.append(f'<text x="{x(n * step):.1f}" y="{height - 12}" text-anchor="middle">{n * step:g} s</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default="steps.svg", help="picture (default steps.svg)")
    p.add_argument("run", nargs="+", type=Run, metavar="NAME=STEPS[,RECORD]")
    args = p.parse_args()
    print("| | steps | median | p99 | longest | lost per cut |\n|---|---|---|---|---|---|")
    for r in args.run:
        print(r.row())
    with open(args.out, "w") as file:
        file.write(draw(args.run))


if __name__ == "__main__":
    main()
