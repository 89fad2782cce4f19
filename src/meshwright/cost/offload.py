"""Bytes, rates and the window of computation beside them go in; what moving state to the host leaves exposed comes out.

Numbers are columns or plain. Rates are one way, of one device; a host's rate is the share of one device, where several
use it. What is exposed is a lower bound: rates are reached, and buffers are pinned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meshwright.base.numbers import N, maximum, where
from meshwright.base.traced import formula

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offload:
    """What offloading does to a step of one device.

    exposed_wait_s: what the step waits beside its computation.   host_bytes: kept on the host.   device_bytes: buffers
    that the device still needs: a source stays until it has been sent, a destination is taken when receiving starts.
    sent_bytes, received_bytes: over the link, by the device.   update_s: on the host, inside the wait.
    """

    exposed_wait_s: Floats
    host_bytes: Floats
    device_bytes: Floats
    sent_bytes: Floats
    received_bytes: Floats
    update_s: Floats


@formula
def transfer_wait_s(sent_bytes: N, link_bytes_per_s: Any, window_s: Any) -> N:
    """Seconds that one transfer is late: max(0, V / B - W).

    window_s: from when it can start to when it is needed. Source: chapter "Training systems", section 10.2.3.
    """
    return maximum(sent_bytes / link_bytes_per_s - window_s, 0.0)


@formula
def touched_bytes(narrow_bytes: N, wide_bytes: N) -> N:
    """Bytes of memory traffic of a cast: it reads the one and writes the other.

    Source: chapter "Training systems", section 10.2.3 and note 12 (3 G where the wide format is twice the narrow).
    """
    return narrow_bytes + wide_bytes


@formula
def cast_on_host_s(narrow_bytes: N, wide_bytes: N, link_bytes_per_s: Any, host_bytes_per_s: Any) -> N:
    """T_c: send the narrow bytes, cast on the host. Source: chapter "Training systems", section 10.2.3."""
    return narrow_bytes / link_bytes_per_s + touched_bytes(narrow_bytes, wide_bytes) / host_bytes_per_s


@formula
def cast_on_device_s(narrow_bytes: N, wide_bytes: N, link_bytes_per_s: Any, device_bytes_per_s: Any) -> N:
    """T_g: cast on the device, send the wide bytes. Source: chapter "Training systems", section 10.2.3."""
    return touched_bytes(narrow_bytes, wide_bytes) / device_bytes_per_s + wide_bytes / link_bytes_per_s


@formula
def break_even_bytes_per_s(narrow_bytes: N, wide_bytes: N, host_bytes_per_s: Any, device_bytes_per_s: Any) -> N:
    """B*: the link at which both casts take as long; below it the host casts sooner, above it the device.

    (wide - narrow) / (touched (1 / C_c - 1 / C_g)). Infinite where the device's memory is not faster than the host's.
    Source: chapter "Training systems", section 10.2.3.
    """
    faster = 1.0 / host_bytes_per_s - 1.0 / device_bytes_per_s
    saved = touched_bytes(narrow_bytes, wide_bytes) * faster
    rate = (wide_bytes - narrow_bytes) / where(faster > 0 * faster, saved, narrow_bytes / device_bytes_per_s)
    return where(faster > 0 * faster, rate, rate * float("inf"))


@formula
def round_trip_wait_s(window_s: N, down_s: Any, update_s: Any, up_s: Any, pieces_count: Any) -> N:
    """Seconds after the window until the last of equal pieces is back.

    A piece becomes ready every window / pieces, goes down, is updated and comes up; each of the three works on one
    piece at a time, and the three beside each other. The last piece ends at W/n + (down + update + up)/n
    + (n-1)/n max(W, down, update, up). One piece: nothing is hidden. Source: derived; the law compares the engine.
    Leaves out the forward of the next step, which could hide the way up, and uneven pieces.
    """
    slowest = maximum(maximum(maximum(window_s, down_s), update_s), up_s)
    first = (window_s + down_s + update_s + up_s) / pieces_count
    return first + slowest * ((pieces_count - 1) / pieces_count) - window_s


@formula
def prefetch_wait_s(load_s: N, window_s: Any, pieces_count: Any) -> N:
    """Seconds that a computation of window_s waits for equal pieces that are loaded one after the other beside it.

    The first is waited for whole; each later one as far as it takes longer than the computation of the one before.
    Source: derived; the law compares the engine.
    """
    return load_s / pieces_count + maximum(load_s - window_s, 0.0) * ((pieces_count - 1) / pieces_count)


def optimizer_offload(  # noqa: PLR0917 - the sizes and rates of one step
    sent_bytes: Floats,
    returned_bytes: Floats,
    state_bytes: Floats,
    touched_bytes: Floats,
    cast_s: Floats,
    link_bytes_per_s: Any,
    host_bytes_per_s: Any,
    window_s: Floats,
    pieces_count: Any,
) -> Offload:
    """Optimizer state on the host: gradients go down behind the backward, the host updates, parameters come back.

    sent_bytes, returned_bytes: of the gradients and of the parameters that a device owns.   state_bytes: master weights
    and moments it owns; they are read and written.   touched_bytes: what else the update moves in the host's memory:
    gradients, cast or not, and the parameters written.   cast_s: of gradients on the device, before they go.
    window_s: of the backward.   pieces_count: parts of it that move on their own (layers). The update is bound by the
    host's memory.
    """
    moved: Any = state_bytes * 2 + touched_bytes
    update: Any = moved / host_bytes_per_s
    down, up = sent_bytes / link_bytes_per_s + cast_s, returned_bytes / link_bytes_per_s
    return Offload(
        exposed_wait_s=round_trip_wait_s(window_s, down, update, up, pieces_count),
        host_bytes=state_bytes + sent_bytes + returned_bytes,
        device_bytes=(sent_bytes + returned_bytes) / pieces_count,
        sent_bytes=sent_bytes,
        received_bytes=returned_bytes,
        update_s=update,
    )


def parameter_offload(  # noqa: PLR0917 - as `optimizer_offload`
    parameter_bytes: Floats,
    fetched_bytes: Floats,
    link_bytes_per_s: Any,
    forward_s: Floats,
    backward_s: Floats,
    pieces_count: Any,
    passes_count: Any,
) -> Offload:
    """Parameters on the host: they are fetched for the forward and again for the backward, a piece ahead.

    parameter_bytes: that a device owns.   fetched_bytes: that it fetches a pass.   passes_count: forwards (as many
    backwards) of a step, one a micro-batch.   forward_s, backward_s: of one pass. Two pieces are on the device at once.
    """
    load = fetched_bytes / link_bytes_per_s
    waits: Any = prefetch_wait_s(load, forward_s, pieces_count) + prefetch_wait_s(load, backward_s, pieces_count)
    received: Any = fetched_bytes * passes_count * 2
    none: Any = fetched_bytes * 0
    return Offload(
        exposed_wait_s=waits * passes_count,
        host_bytes=parameter_bytes,
        device_bytes=fetched_bytes * 2 / pieces_count,
        sent_bytes=none,
        received_bytes=received,
        update_s=none * 0.0,
    )


def activation_offload(  # noqa: PLR0917 - as `optimizer_offload`
    saved_bytes: Floats,
    kept_bytes: Floats,
    link_bytes_per_s: Any,
    forward_s: Floats,
    backward_s: Floats,
    pieces_count: Any,
    passes_count: Any,
) -> Offload:
    """Saved activations on the host: a layer's go down behind the next layers' forward and come up ahead of its own.

    saved_bytes: of one micro-batch and pass.   kept_bytes: of all micro-batches that wait for their backward at once,
    what the host holds.   passes_count: micro-batches of a step. Two pieces are on the device each way.
    """
    down: Any = transfer_wait_s(saved_bytes, link_bytes_per_s, forward_s)
    up: Any = transfer_wait_s(saved_bytes, link_bytes_per_s, backward_s)
    moved: Any = saved_bytes * passes_count
    none: Any = saved_bytes * 0
    return Offload(
        exposed_wait_s=(down + up) * passes_count,
        host_bytes=kept_bytes,
        device_bytes=saved_bytes * 2 / pieces_count,
        sent_bytes=moved,
        received_bytes=moved,
        update_s=none * 0.0,
    )
