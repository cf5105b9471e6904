"""Registers veldt's own networks."""

from veldt.networks.registry import NETWORKS, NetworkEntry
from veldt.networks.torsos import ImpalaTorso, a3c_net, dqn_net, small_net

for name, entry in {
    "auto": NetworkEntry(None),
    "mlp": NetworkEntry(None),
    "a3c": NetworkEntry(a3c_net, smallest_image=20),
    "dqn": NetworkEntry(dqn_net, smallest_image=36),
    "impala": NetworkEntry(ImpalaTorso, smallest_image=8),
    "small": NetworkEntry(small_net, smallest_image=3),
}.items():
    NETWORKS.add(name, entry, __name__)
