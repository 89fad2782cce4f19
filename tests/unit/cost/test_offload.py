"""Offloading of one step by hand: Qwen3-8B's state on eight cards of an RTX 4090 host."""

from __future__ import annotations

import pytest

from meshwright.cost.offload import activation_offload, optimizer_offload, parameter_offload
from meshwright.system.system import read_system

SHARD = 8_190_735_360 // 8
LINK, HOST = 32e9, 307.2e9 / 8


def test_an_optimizer_on_the_host_waits_for_its_last_layer():
    """2 B of gradients down, 12 B of state read and written, 2 B of parameters back, in 36 layers."""
    found = optimizer_offload(2 * SHARD, 2 * SHARD, 12 * SHARD, 4 * SHARD, 0.0, LINK, HOST, 0.5, 36)
    down, update = 2 * SHARD / LINK, (2 + 2 * 12 + 2) * SHARD / HOST
    assert found.update_s == pytest.approx(update)
    assert found.exposed_wait_s == pytest.approx((0.5 + down + update + down) / 36 + update * 35 / 36 - 0.5)
    assert (found.host_bytes, found.sent_bytes, found.received_bytes) == (16 * SHARD, 2 * SHARD, 2 * SHARD)
    assert found.device_bytes == 4 * SHARD / 36


def test_a_window_longer_than_all_of_it_leaves_only_the_last_layer():
    found = optimizer_offload(2 * SHARD, 2 * SHARD, 12 * SHARD, 4 * SHARD, 0.0, LINK, HOST, 100.0, 36)
    assert found.exposed_wait_s == pytest.approx((found.update_s + 4 * SHARD / LINK) / 36)


def test_parameters_are_fetched_twice_a_micro_batch():
    found = parameter_offload(2 * SHARD, 16 * SHARD, LINK, 2.0, 4.0, 36, 3)
    load = 16 * SHARD / LINK
    assert found.received_bytes == 2 * 3 * 16 * SHARD
    assert found.exposed_wait_s == pytest.approx(3 * 2 * load / 36), "what is loaded behind the layer before is hidden"
    assert found.device_bytes == 2 * 16 * SHARD / 36


def test_activations_wait_for_what_their_passes_do_not_cover():
    found = activation_offload(64e9, 128e9, LINK, 1.5, 3.0, 36, 2)
    assert found.exposed_wait_s == pytest.approx(2 * 0.5)
    assert (found.sent_bytes, found.received_bytes, found.host_bytes) == (128e9, 128e9, 128e9)


def test_systems_state_what_their_hosts_have():
    host = read_system("rtx4090-host").host
    assert host.memory_bandwidth == 307.2e9
    assert read_system("hgx-h100").host.memory == 2 * 10**12
