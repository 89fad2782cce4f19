"""A timeline goes in; a Perfetto trace comes out (TrackEvent protobuf): one track a resource, one slice a run.

Open it at ui.perfetto.dev. Times are nanoseconds, rounded, and a run that rounds to none is an instant; a slice has its
kind as category, and what let it start as an annotation. Needs the package `perfetto` (extra `trace`) for its protobuf
classes only.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.base.errors import FileError
from meshwright.base.units import show_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from meshwright.sim.timeline import Timeline

Rows: TypeAlias = "NDArray[np.int64]"
_MODULE: Final = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
_NANOSECONDS: Final = 1e9
_MOST_NANOSECONDS: Final = 2**63 - 1
_SEQUENCE: Final = 1
_PROCESS: Final = 1


def as_perfetto(timeline: Timeline, title: str) -> bytes:
    """The serialized trace.

    Raises IO050 when the package `perfetto` is not installed, IO051 for more nanoseconds than a trace can count.
    """
    if find_spec("perfetto") is None:
        raise FileError(50, "a Perfetto trace needs the package perfetto", "pip install 'meshwright[trace]'")
    if timeline.makespan_s * _NANOSECONDS >= _MOST_NANOSECONDS:
        cause = f"{show_seconds(timeline.makespan_s)} are more nanoseconds than a Perfetto trace can count"
        raise FileError(51, cause, "give shorter times, or draw the timeline with --svg FILE")
    protos: Any = import_module(_MODULE)
    trace = protos.Trace()
    process = trace.packet.add()
    process.timestamp = 0
    process.track_descriptor.uuid = _PROCESS
    process.track_descriptor.process.pid = 1
    process.track_descriptor.process.process_name = title
    ran = np.flatnonzero(~np.isnan(timeline.end_s))
    track = _tracks(timeline, ran)
    for resource, lane in sorted(set(track.values())):
        packet = trace.packet.add()
        packet.timestamp = 0
        packet.track_descriptor.uuid = _uuid(resource, lane)
        packet.track_descriptor.parent_uuid = _PROCESS
        packet.track_descriptor.name = timeline.resources[resource] if resource >= 0 else "at once"
    _slices(protos, trace, timeline, ran, track)
    return bytes(trace.SerializeToString())


def _tracks(timeline: Timeline, ran: Rows) -> dict[int, tuple[int, int]]:
    """The resource of every run, and the lane of it: runs that overlap on a shared resource lie beside each other."""
    found: dict[int, tuple[int, int]] = {}
    free: dict[int, list[float]] = {}
    for row in ran[np.argsort(timeline.start_s[ran], kind="stable")].tolist():
        resource = int(timeline.resource[row])
        lanes = free.setdefault(resource, [])
        start = float(timeline.start_s[row])
        lane = next((place for place, end in enumerate(lanes) if end <= start), len(lanes))
        lanes[lane : lane + 1] = [float(timeline.end_s[row])]
        found[row] = resource, lane
    return found


def _slices(protos: Any, trace: Any, timeline: Timeline, ran: Rows, track: Mapping[int, tuple[int, int]]) -> None:
    """Begin and end of every run, by time; at one time ends come first, and a run of no length is an instant."""
    starts = np.rint(timeline.start_s[ran] * _NANOSECONDS).astype(np.int64)
    ends = np.rint(timeline.end_s[ran] * _NANOSECONDS).astype(np.int64)
    event = protos.TrackEvent
    long = ends > starts
    rows = np.concatenate([ran, ran[long]])
    times = np.concatenate([starts, ends[long]])
    begins = np.arange(len(rows)) < len(ran)
    for place in np.lexsort((rows, begins, times)).tolist():
        row = int(rows[place])
        packet = trace.packet.add()
        packet.timestamp = int(times[place])
        packet.trusted_packet_sequence_id = _SEQUENCE
        found = packet.track_event
        found.track_uuid = _uuid(*track[row])
        if not begins[place]:
            found.type = event.TYPE_SLICE_END
            continue
        found.type = event.TYPE_SLICE_BEGIN if long[place] else event.TYPE_INSTANT
        found.name = timeline.label(int(timeline.task[row]))
        found.categories.append(timeline.kinds[int(timeline.kind[row])])
        cause = int(timeline.cause[row])
        if cause >= 0:
            note = found.debug_annotations.add()
            note.name = "started by"
            note.string_value = timeline.label(int(timeline.task[cause]))


def _uuid(resource: int, lane: int) -> int:
    """Of a track: never that of the process."""
    return ((resource + 2) << 20) + lane
