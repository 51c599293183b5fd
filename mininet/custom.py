"""For Mininet's own command:

    sudo mn --custom mininet/custom.py --topo ethereal --switch ethereal \\
        --controller ethereal --host ethereal --test pingall

--switch is ethereal, kernel or bmv2. The fabric file, the binaries and the folder are in
the environment: FABRIC, ETHEREAL, BMV2, ETHEREAL_DIR.
"""

import atexit
import inspect
import os
import sys
from functools import partial

# mn executes this file without telling it where it is.
HERE = os.path.dirname(os.path.abspath(inspect.getframeinfo(inspect.currentframe()).filename))  # type: ignore[arg-type]
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from etherealnet.control import FabricController
from etherealnet.deployment import DEFAULT_DIR, Deployment, DeploymentError, find_binary
from etherealnet.fabric import FabricError
from etherealnet.hosts import FabricHost
from etherealnet.links import CheckedTCLink
from etherealnet.switches import BMv2Switch, GoSwitch, KernelSwitch
from etherealnet.topology import FabricTopo

try:
    deployment = Deployment(
        os.environ.get("FABRIC", os.path.join(HERE, "fabric.yaml")), find_binary(None),
        os.environ.get("ETHEREAL_DIR", DEFAULT_DIR), os.environ.get("BMV2", "simple_switch_grpc"),
    )
except (DeploymentError, FabricError) as problem:
    sys.exit(f"mininet/custom.py: {problem}")
atexit.register(deployment.close)  # mn knows nothing of it


def controller(name, **params):  # type: ignore[no-untyped-def]
    """A controller that knows from the command line what the switches are."""
    switch = BMv2Switch if any("bmv2" in arg for arg in sys.argv) else GoSwitch
    return FabricController(name, deployment=deployment, switch=switch, **params)


def pingall(net):  # type: ignore[no-untyped-def]
    """Waits until the fabric is programmed, then pings all pairs."""
    for c in net.controllers:
        c.wait_ready()
    net.pingAll()


topos = {"ethereal": partial(FabricTopo, deployment=deployment)}
switches = {"ethereal": GoSwitch, "kernel": KernelSwitch, "bmv2": BMv2Switch}
hosts = {"ethereal": FabricHost}
controllers = {"ethereal": controller}
links = {"checked": CheckedTCLink}
tests = {"fabric": pingall}
