"""What the JSON document of `topology` holds: names and types, for the published schema."""

from __future__ import annotations

from typing import TypedDict

from meshwright.output.bodies import Amount, Count, Name


class VertexItem(TypedDict):
    """Vertices by what stands there; switches are of one chip or of several that share evenly."""

    device: Count
    switch: Count
    nic: Count
    pcie_switch: Count
    cpu: Count


class BisectionItem(TypedDict):
    """The least cut between two halves of the devices that the structure knows; near, far: devices of each."""

    near: Count
    far: Count
    links: Count
    cables: Count
    cables_per_device: Amount
    out_bytes_per_s: Amount
    back_bytes_per_s: Amount


class NetworkItem(TypedDict):
    """What a network is made of. switch_chips: null where a switch stands in it whose build is not known.

    ports: at both ends of all cables; PCIe is not counted.   links: directed.   paths: between how many pairs of
    devices the longest and the mean are taken.   oversubscription: null where no switch leads up.
    """

    title: Name
    devices: Count
    boxes: Count
    vertices: VertexItem
    switch_chips: Count | None
    cables: Count
    ports: Count
    links: Count
    device_ports: Count
    device_bytes_per_s: Amount
    diameter_links: Count
    diameter_forwards: Count
    mean_links: Amount
    mean_links_with_self: Amount
    longest_path_s: Amount
    paths: Count
    oversubscription: Amount | None
    bisection: BisectionItem | None


class LoadItem(TypedDict):
    """What a load takes at least: its busiest link, its own ports, the cut; and with latency, round after round."""

    operation: Name
    algorithm: str | None
    message_bytes: Count
    sent_bytes: Amount
    flows: Count
    link_total_bytes: Amount
    busiest_s: Amount
    injection_s: Amount
    cut_s: Amount | None
    least_s: Amount
    latency_s: Amount
    time_s: Amount


class LinkLoad(TypedDict):
    """Directed links of one sort, and over all rounds the most that one of them carries; null without a load."""

    id: Name
    links: Count
    cables: Count
    bandwidth_bytes_per_s: Amount | None
    latency_s: Amount
    max_bytes: Amount | None
    mean_bytes: Amount | None
    busy_s: Amount | None
    busiest: str | None


class RoundItem(TypedDict):
    """One pattern of rounds, `times` of them. peer: the receiver of the first device that sends."""

    number: Count
    times: Count
    flows: Count
    peer: Count
    most_links: Count
    max_bytes: Amount
    link_total_bytes: Amount
    busiest: str | None
    transfer_s: Amount
    latency_s: Amount
    transfer_until_s: Amount
    until_s: Amount


class TopologyBody(TypedDict):
    """A network, and a load on it: null and no rounds where none was asked for."""

    network: NetworkItem
    load: LoadItem | None
    links: list[LinkLoad]
    rounds: list[RoundItem]
