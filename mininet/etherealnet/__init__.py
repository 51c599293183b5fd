"""Ethereal fabrics in Mininet: topology, switches, hosts and controller.

The fabric is read from the same fabric.yaml that the controller reads, by way
of ``ethereal topo -o json``. Nothing here knows how a Clos is wired.
"""
