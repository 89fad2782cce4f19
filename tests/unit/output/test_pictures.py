"""A timeline as SVG and as a Perfetto trace, both read back."""

from __future__ import annotations

from fractions import Fraction
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from meshwright.base.errors import FileError
from meshwright.output import svg
from meshwright.output.svg import as_svg
from meshwright.sim.engine import Edges, Problem, Resource, simulate
from meshwright.sim.timeline import timeline

SHORT_S = 2e-10
NAMES = ("read & check", "compute <a>", "compute b", "copy", "done")


@pytest.fixture
def small():
    """Two streams and a shared disk: read, then two computations; two copies share the disk; a moment of no length."""
    problem = Problem(
        duration=np.array([1.0, 2.0, 3.0, 4.0, 0.0]),
        resource=np.array([2, 0, 1, 2, -1]),
        edges=Edges(before=np.array([0, 0, 1, 2, 3]), after=np.array([1, 2, 4, 4, 4]), at_start=np.zeros(5, np.bool_)),
        resources=(
            Resource(name="stream 0"),
            Resource(name="stream 1"),
            Resource(name="disk", queue="shared", rate=1.0),
        ),
        tie=np.arange(5),
        release=np.zeros(5),
    )
    times = simulate(problem)
    kinds = np.array([0, 1, 1, 0, 2])
    return timeline(
        problem, times, kind=kinds, kinds=("transfer", "compute", "moment"), label=NAMES.__getitem__, tick_s=Fraction(1)
    )


def test_the_svg_has_a_box_for_every_run_that_takes_time_and_their_names_are_escaped(small):
    root = ET.fromstring(as_svg(small, "a & b"))  # noqa: S314 - our own text
    boxes = root.findall("{*}g")
    assert sorted(box.get("class") for box in boxes) == ["compute", "compute", "transfer", "transfer"]
    titles = [box.findtext("{*}title") for box in boxes]
    assert any(title.startswith("read & check: ") for title in titles)
    assert root.findtext("{*}title").startswith("a & b, ")


def test_the_svg_places_boxes_by_their_start_and_length(small):
    root = ET.fromstring(as_svg(small, "times"))  # noqa: S314 - our own text
    boxes = {box.findtext("{*}title").split(":")[0]: box.find("{*}rect") for box in root.findall("{*}g")}
    scale = float(boxes["compute b"].get("width")) / 3.0
    assert float(boxes["compute <a>"].get("width")) == pytest.approx(2.0 * scale, rel=1e-3)
    left = float(boxes["compute b"].get("x")) - scale * float(small.start_s[2])
    assert left == pytest.approx(float(boxes["read & check"].get("x")), rel=1e-3)


def test_a_perfetto_trace_reads_back_as_the_runs_of_the_timeline(small):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    from meshwright.output.traces import as_perfetto

    trace = protos.Trace()
    trace.ParseFromString(as_perfetto(small, "small"))
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor.name
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }
    open_slices: dict[int, list[tuple[str, int]]] = {}
    found = []
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event, stack = packet.track_event, open_slices.setdefault(packet.track_event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            assert not stack, "runs on one track do not overlap"
            stack.append((event.name, packet.timestamp))
        elif event.type == event.TYPE_SLICE_END:
            name, start = stack.pop()
            found.append((name, tracks[event.track_uuid], start / 1e9, packet.timestamp / 1e9))
        else:
            assert event.name == "done"
    assert not any(open_slices.values())
    wanted = [
        (NAMES[row], small.resources[small.resource[row]], float(small.start_s[row]), float(small.end_s[row]))
        for row in range(4)
    ]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize(("duration_s", "kinds"), [(SHORT_S, [3]), (1.0, [1, 2]), (9.2e9, [1, 2])])
def test_every_slice_that_begins_ends_and_a_run_that_rounds_to_no_nanosecond_is_an_instant(duration_s, kinds):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    from meshwright.output.traces import as_perfetto

    trace = protos.Trace()
    trace.ParseFromString(as_perfetto(alone(duration_s), "one"))
    assert [packet.track_event.type for packet in trace.packet if packet.HasField("track_event")] == kinds


def test_more_nanoseconds_than_a_trace_can_count_are_refused_and_can_still_be_drawn():
    from meshwright.output.traces import as_perfetto

    with pytest.raises(FileError) as caught:
        as_perfetto(alone(1e10), "one")
    assert caught.value.code == "IO051"
    assert "<g class" in as_svg(alone(1e10), "one")


def test_runs_that_follow_each_other_on_one_resource_are_one_track():
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    from meshwright.output.traces import as_perfetto

    trace = protos.Trace()
    trace.ParseFromString(as_perfetto(alone(1.0, 2.0, 1.0), "three"))
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    assert [event.type for event in events] == [1, 2, 1, 2, 1, 2]
    assert len({event.track_uuid for event in events}) == 1


def test_of_too_many_runs_the_longest_are_drawn_and_the_picture_says_how_many_are_not(monkeypatch):
    monkeypatch.setattr(svg, "MOST_BOXES", 2)
    root = ET.fromstring(as_svg(alone(3.0, 1.0, 2.0), "three"))  # noqa: S314 - our own text
    assert [box.findtext("{*}title").partition(":")[0] for box in root.findall("{*}g")] == ["task 0", "task 2"]
    assert root.findtext("{*}title").endswith("(1 shorter runs are not drawn)")


def alone(*duration_s):
    """Tasks on one resource, one after the other."""
    none = np.zeros(0, np.int64)
    count = len(duration_s)
    problem = Problem(
        duration=np.array(duration_s),
        resource=np.zeros(count, np.int64),
        edges=Edges(before=none, after=none, at_start=none.astype(np.bool_)),
        resources=(Resource(name="stream"),),
        tie=np.arange(count),
        release=np.zeros(count),
    )
    times = simulate(problem)
    return timeline(problem, times, kind=np.zeros(count, np.int64), kinds=("work",), label="task {}".format, tick_s=1.0)
