#!/usr/bin/python3
"""Runs the solutions of the p4lang tutorials, unchanged, with either switch.

    git -C DIR clone https://github.com/p4lang/tutorials     # and p4runtime, PI, p4runtime-shell
    sudo mininet/tutorials.py --p4lang DIR                   # ethereal switch in the place of BMv2
    sudo mininet/tutorials.py --p4lang DIR --switch kernel   # the same with the programs in the kernel
    sudo mininet/tutorials.py --p4lang DIR --switch bmv2     # BMv2 itself
    sudo mininet/tutorials.py --p4lang DIR flowcache ecn     # these exercises

Their exercises, topologies, Mininet classes and Python P4Runtime library are used
as they are. Each exercise runs in network, mount and process namespaces of its
own, which take all with them when they end.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from typing import Any, List, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import mininet.net  # noqa: F401  pylint: disable=unused-import
except ImportError as problem:
    sys.exit(f"{problem}: install Mininet (Debian, Ubuntu: apt-get install mininet), and run this with "
             "/usr/bin/python3; scripts/check says what else is missing")

# pylint: disable=wrong-import-position
from etherealnet.deployment import DeploymentError, find_binary, find_bmv2
from etherealnet.endings import Ended, end_on_signals
from etherealnet.exercises import EXERCISES, Failed, Lab
from etherealnet.pings import PingError

REPOSITORIES = ("tutorials", "p4runtime", "PI", "p4runtime-shell")
DEFAULT_DIR = "/run/ethereal-tutorials"
LIMIT = 900  # s, for an exercise


def parse(argv: List[str]) -> argparse.Namespace:
    """Reads the command line."""
    p = argparse.ArgumentParser(description="Runs the solutions of the p4lang tutorials with either switch.")
    p.add_argument("--p4lang", required=True, metavar="DIR",
                   help="the folder with clones of p4lang's " + ", ".join(REPOSITORIES))
    p.add_argument("--switch", choices=["go", "kernel", "bmv2"], default="go",
                   help="go: ethereal switch under the name of simple_switch_grpc; kernel: the same with "
                        "--datapath kernel; bmv2: BMv2 itself (default: go)")
    p.add_argument("--p4c", default=os.environ.get("P4C", "p4c-bm2-ss"), metavar="FILE",
                   help="the compiler (default: $P4C, p4c-bm2-ss)")
    p.add_argument("--ethereal", metavar="FILE",
                   help="the ethereal binary (default: $ETHEREAL, bin/ethereal, the path)")
    p.add_argument("--bmv2", metavar="FILE", help="simple_switch_grpc (default: $BMV2, the path)")
    p.add_argument("--dir", default=DEFAULT_DIR, metavar="DIR",
                   help=f"copies of the exercises, and their logs (default: {DEFAULT_DIR})")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # this run is in the namespaces
    p.add_argument("exercises", nargs="*", metavar="EXERCISE",
                   help="exercises to run (default: all, " + ", ".join(EXERCISES) + ")")
    args = p.parse_args(argv)
    for name in args.exercises:
        if name not in EXERCISES:
            p.error(f"there is no exercise {name}; there are " + ", ".join(EXERCISES))
    return args


def call(what: str, argv: Sequence[str], folder: str) -> None:
    """Runs a command that must succeed."""
    try:
        done = subprocess.run(argv, cwd=folder, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except FileNotFoundError as err:
        raise DeploymentError(f"{what}: there is no {argv[0]}; docs/mininet.md says what the tutorials need") from err
    if done.returncode != 0:
        raise DeploymentError(f"{what}: {' '.join(argv)} ended with {done.returncode}:\n{done.stdout.strip()}")


def make_library(args: argparse.Namespace) -> str:
    """Makes the Python of P4Runtime's and PI's messages, and returns its folder."""
    plugin = shutil.which("grpc_python_plugin")
    if plugin is None:
        raise DeploymentError("there is no grpc_python_plugin; Debian, Ubuntu: apt-get install protobuf-compiler "
                              "protobuf-compiler-grpc python3-grpcio python3-protobuf python3-scapy")
    folder = os.path.join(args.dir, "python")
    os.makedirs(folder)
    sources = [os.path.join(args.p4lang, name, "proto") for name in ("p4runtime", "PI")]
    call("P4Runtime's messages", [
        "protoc", *(f"-I{s}" for s in sources), f"--python_out={folder}", f"--grpc_out={folder}",
        f"--plugin=protoc-gen-grpc={plugin}", "p4/config/v1/p4types.proto", "p4/config/v1/p4info.proto",
        "p4/v1/p4data.proto", "p4/v1/p4runtime.proto", "p4/tmp/p4config.proto", "google/rpc/status.proto",
        "google/rpc/code.proto",
    ], args.p4lang)
    return folder


def make_switch(args: argparse.Namespace) -> str:
    """Puts the switch into a folder of its own, under BMv2's name, and returns the folder."""
    folder = os.path.join(args.dir, "bin")
    os.makedirs(folder)
    path = os.path.join(folder, "simple_switch_grpc")
    if args.switch == "bmv2":
        os.symlink(os.path.abspath(find_bmv2(args.bmv2)), path)
    elif args.switch == "kernel":
        binary = shlex.quote(os.path.abspath(find_binary(args.ethereal)))
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec {binary} switch --as-simple-switch --datapath kernel "$@"\n')
        os.chmod(path, 0o755)
    else:
        os.symlink(find_binary(args.ethereal), path)
    return folder


def prepare(args: argparse.Namespace, name: str) -> str:
    """Copies an exercise, its solution over it, and compiles it with its own Makefile."""
    source = os.path.join(args.p4lang, "tutorials")
    folder = os.path.join(args.dir, "exercises", name)
    shutil.copytree(os.path.join(source, "exercises", name), folder)
    shutil.copytree(os.path.join(folder, "solution"), folder, dirs_exist_ok=True)
    call(f"compiling {name}", ["make", "build", f"P4C={args.p4c}"], folder)
    return folder


def program(name: str) -> str:
    """The compiled program of switches for which the topology has none."""
    return os.path.join("build", (EXERCISES[name].program or name) + ".json")


def inside(args: argparse.Namespace) -> int:
    """Runs one exercise, here, and writes what came of it to a file."""
    name = args.exercises[0]
    folder = os.path.join(args.dir, "exercises", name)
    os.chdir(folder)
    from run_exercise import ExerciseRunner  # pylint: disable=import-outside-toplevel

    class Runner(ExerciseRunner):  # type: ignore[misc]
        """Checks where p4lang's runner opens Mininet's command line."""

        outcome = ""

        def do_net_cli(self) -> None:
            """Called when the network is there."""
            self.outcome = EXERCISES[name].check(Lab(self.net, folder))

    runner: Any = Runner(EXERCISES[name].topology, "logs", "pcaps", program(name), "simple_switch_grpc")
    passed, outcome = False, ""
    try:
        runner.run_exercise()
        passed, outcome = True, runner.outcome
    except (Failed, PingError, TimeoutError) as err:
        outcome = str(err)
    except SystemExit:
        outcome = "a switch did not start"
    with open("result.json", "w", encoding="utf-8") as f:
        json.dump([passed, outcome], f)
    return 0 if passed else 1


def run(args: argparse.Namespace, name: str, path: str, library: str) -> Tuple[bool, str]:
    """Runs one exercise in namespaces of its own; returns whether it passed, and what was seen."""
    folder = prepare(args, name)
    environment = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], PYTHONUNBUFFERED="1")
    environment["PYTHONPATH"] = os.pathsep.join(
        [os.path.join(args.dir, "utils"), library, os.path.join(args.p4lang, "p4runtime-shell")])
    script = 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"'
    command = [
        "unshare", "-nmpf", "--kill-child", "--mount-proc", "sh", "-c", script, "--", sys.executable,
        os.path.abspath(__file__), "--inside", "--p4lang", args.p4lang, "--dir", args.dir, name,
    ]
    log = os.path.join(folder, "logs", "run.log")
    with open(log, "wb") as out:
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT) as process:
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                return False, f"not done after {LIMIT} s: {log}"
            except BaseException:
                process.kill()
                raise
    try:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as f:
            passed, outcome = json.load(f)
    except FileNotFoundError:
        return False, f"its runner ended with {process.returncode}: {log}"
    return passed, outcome


MARK = ".tutorials"  # in a folder that this program made, and may empty


def clear(folder: str) -> None:
    """Makes a folder, or empties one of an earlier run; raises DeploymentError for any other."""
    mark = os.path.join(folder, MARK)
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.exists(mark):
        raise DeploymentError(f"--dir {folder} is not empty and not of an earlier run; name a new folder")
    for name in ("bin", "python", "utils", "exercises"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    with open(mark, "w", encoding="utf-8"):
        pass


def main(argv: List[str]) -> int:
    """The program."""
    args = parse(argv)
    args.p4lang, args.dir = os.path.abspath(args.p4lang), os.path.abspath(args.dir)
    if args.inside:
        return inside(args)
    if os.geteuid() != 0:
        print("mininet/tutorials.py: network namespaces take root; use sudo", file=sys.stderr)
        return 2
    end_on_signals()
    names = args.exercises or list(EXERCISES)
    failed = 0
    try:
        for repository in REPOSITORIES:
            if not os.path.isdir(os.path.join(args.p4lang, repository)):
                raise DeploymentError(f"{args.p4lang} has no {repository}; git -C {args.p4lang} clone --depth 1 "
                                      f"https://github.com/p4lang/{repository}")
        clear(args.dir)
        path, library = make_switch(args), make_library(args)
        shutil.copytree(os.path.join(args.p4lang, "tutorials", "utils"), os.path.join(args.dir, "utils"))
        print(f"the switch is {os.path.realpath(os.path.join(path, 'simple_switch_grpc'))}", flush=True)
        for name in names:
            begin = time.monotonic()
            passed, outcome = run(args, name, path, library)
            failed += not passed
            print(f"{name:<15} {'passes' if passed else 'FAILS':<7} {time.monotonic() - begin:6.1f} s  {outcome}",
                  flush=True)
    except (DeploymentError, OSError) as err:
        print(f"mininet/tutorials.py: {err}", file=sys.stderr)
        return 1
    except Ended as err:
        print(f"mininet/tutorials.py: ended by {err}", file=sys.stderr)
        return 1
    print(f"{len(names) - failed} of {len(names)} exercises pass with {args.switch}; logs are in {args.dir}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
