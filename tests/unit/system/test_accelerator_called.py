"""What drivers call a device, and which entry of the catalog that is."""

from __future__ import annotations

import pytest

from meshwright.system.accelerator import accelerator_called


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_device_of_the_catalog_is_found_by_its_drivers_name(name, found):
    device = accelerator_called(name)
    assert device is not None
    assert device.id == found


@pytest.mark.parametrize(
    "name",
    [
        *("", "cpu", "Tesla T4", "NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 4090 D"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4"),
    ],
)
def test_a_device_that_is_not_surely_in_the_catalog_is_none(name):
    assert accelerator_called(name) is None
