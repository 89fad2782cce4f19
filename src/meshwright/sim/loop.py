"""The event loop: columns of tasks, edges, resources and failures go in; when each task ran, and why then, comes out.

One function for every size: it runs as it is on lists, and compiled by numba on arrays (`sim.engine` chooses; a test
runs both). Times are ticks (whole numbers, exact) or seconds, one kind in one problem.

    at one time  ends, arrivals, failures and returns first, in the order in which they became known; then starts
    starts       resource by resource, in the order in which they could; a task of no length ends before the next start
    exclusive    one task at a time; of those that wait the earliest ready (fifo) or the lowest tie (priority), then the
                 lowest tie, then the lowest number
    shared       all tasks at once, each at rate / tasks; a task ends when its work is done
    failure      what the resource runs is cancelled and waits to run again, whole, until the resource is back
"""

from __future__ import annotations

from typing import Any, Final

FIFO: Final = 0
PRIORITY: Final = 1
SHARED: Final = 2
_END, _ARRIVAL, _SHARE, _FAIL, _BACK = 0, 1, 2, 3, 4


def run(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop, which numba compiles as a whole
    duration: Any,
    resource: Any,
    tie: Any,
    release: Any,
    waits: Any,
    first_edge: Any,
    edge_to: Any,
    edge_at_start: Any,
    kind: Any,
    rate: Any,
    fail_at: Any,
    fail_resource: Any,
    fail_back: Any,
    start: Any,
    end: Any,
    cause: Any,
    lost: Any,
    begun: Any,
    ready: Any,
    key: Any,
    before: Any,
    after: Any,
    head: Any,
    tail: Any,
    running: Any,
    last: Any,
    down: Any,
    active: Any,
    virtual: Any,
    updated: Any,
    version: Any,
    event_time: Any,
    event_order: Any,
    event_code: Any,
    event_number: Any,
    event_version: Any,
    arrived: Any,
    free: Any,
    moment: Any,
) -> int:
    """How many tasks ended.

    Columns of tasks: duration (work where the resource is shared), resource (-1: none), tie, release (not before),
    waits (edges into it).   Edges of task i: first_edge[i] to first_edge[i + 1] of edge_to, edge_at_start (it waits for
    the start of i, not for its end).   Columns of resources: kind, rate (of shared ones).   Columns of failures:
    fail_at, fail_resource, fail_back.   Filled here: start, end, cause (the task whose end or start let it start, or -1), lost
    (time that failures took from it).   The rest is room to work in: `begun` to `after` a cell a task, `head` to
    `version` a cell a resource, `event_...` and `arrived` and `free` as `sim.engine` sizes them; moment holds zero.
    """
    tasks = len(duration)
    done = 0
    now = moment[0]
    size = 0  # of the heap of events
    known = 0  # events so far, which breaks ties between them
    waiting = 0  # tasks in `arrived`, which became ready at this moment
    startable = 0  # resources in `free`, which may start a task at this moment
    put = 0  # events to put into the heap: kept behind its last cell

    for task in range(tasks):
        if waits[task] == 0:
            ready[task] = release[task]
            if release[task] > now:
                event_time[size + put] = release[task]
                event_code[size + put] = _ARRIVAL
                event_number[size + put] = task
                event_version[size + put] = 0
                put += 1
            else:
                arrived[waiting] = task
                waiting += 1
    for number in range(len(fail_at)):
        event_time[size + put] = fail_at[number]
        event_code[size + put] = _FAIL
        event_number[size + put] = number
        event_version[size + put] = 0
        put += 1

    while True:
        # put what is new into the heap
        while put > 0:
            put -= 1
            time = event_time[size]
            code = event_code[size]
            number = event_number[size]
            edition = event_version[size]
            place = size
            size += 1
            order = known
            known += 1
            while place > 0:
                parent = (place - 1) >> 1
                if event_time[parent] <= time:
                    break
                event_time[place] = event_time[parent]
                event_order[place] = event_order[parent]
                event_code[place] = event_code[parent]
                event_number[place] = event_number[parent]
                event_version[place] = event_version[parent]
                place = parent
            event_time[place] = time
            event_order[place] = order
            event_code[place] = code
            event_number[place] = number
            event_version[place] = edition

        # a task that became ready: into the queue of its resource, or started where nothing is waited for
        if waiting > 0:
            waiting -= 1
            task = arrived[waiting]
            own = resource[task]
            if own < 0:
                start[task] = now
                end[task] = now + duration[task]
                event_time[size] = end[task]
                event_code[size] = _END
                event_number[size] = task
                event_version[size] = 0
                put = 1
                opened = task
            elif kind[own] == SHARED and not down[own]:
                if active[own] > 0:
                    virtual[own] = virtual[own] + (now - updated[own]) * rate[own] / active[own]
                updated[own] = now
                start[task] = now
                key[task] = virtual[own] + duration[task]
                active[own] += 1
                version[own] += 1
                opened = task
            else:
                key[task] = tie[task] if kind[own] == PRIORITY else ready[task]
                opened = -1
            if own >= 0:
                other = tail[own]
                while other >= 0 and (
                    key[other] > key[task] or (key[other] == key[task] and (tie[other], other) > (tie[task], task))
                ):
                    other = before[other]
                before[task] = other
                follower = head[own] if other < 0 else after[other]
                after[task] = follower
                if other < 0:
                    head[own] = task
                else:
                    after[other] = task
                if follower < 0:
                    tail[own] = task
                else:
                    before[follower] = task
                if kind[own] == SHARED and not down[own]:
                    first = head[own]
                    event_time[size] = now + max(key[first] - virtual[own], 0) * active[own] / rate[own]
                    event_code[size] = _SHARE
                    event_number[size] = own
                    event_version[size] = version[own]
                    put = 1
                elif kind[own] != SHARED and running[own] < 0 and not down[own]:
                    free[startable] = own
                    startable += 1
            if opened >= 0 and not begun[opened]:
                begun[opened] = True
                for edge in range(first_edge[opened], first_edge[opened + 1]):
                    if edge_at_start[edge]:
                        to = edge_to[edge]
                        waits[to] -= 1
                        if waits[to] == 0:
                            cause[to] = opened
                            ready[to] = max(now, release[to])
                            if ready[to] > now:
                                event_time[size + put] = ready[to]
                                event_code[size + put] = _ARRIVAL
                                event_number[size + put] = to
                                event_version[size + put] = 0
                                put += 1
                            else:
                                arrived[waiting] = to
                                waiting += 1
            continue

        # everything that happens at this moment comes before what starts at it
        if size > 0 and (event_time[0] == now or startable == 0):
            now = event_time[0]
            code = event_code[0]
            number = event_number[0]
            edition = event_version[0]
            size -= 1
            if size > 0:
                time = event_time[size]
                order = event_order[size]
                place = 0
                while True:
                    below = 2 * place + 1
                    if below >= size:
                        break
                    if below + 1 < size and (
                        event_time[below + 1] < event_time[below]
                        or (event_time[below + 1] == event_time[below] and event_order[below + 1] < event_order[below])
                    ):
                        below += 1
                    if event_time[below] > time or (event_time[below] == time and event_order[below] > order):
                        break
                    event_time[place] = event_time[below]
                    event_order[place] = event_order[below]
                    event_code[place] = event_code[below]
                    event_number[place] = event_number[below]
                    event_version[place] = event_version[below]
                    place = below
                event_time[place] = time
                event_order[place] = order
                event_code[place] = event_code[size]
                event_number[place] = event_number[size]
                event_version[place] = event_version[size]
            closed = -1
            if code == _ARRIVAL:
                arrived[waiting] = number
                waiting += 1
            elif code == _END:
                own = resource[number]
                if own < 0:
                    closed = number
                elif edition == version[own]:
                    closed = number
                    running[own] = -1
                    last[own] = number
                    if head[own] >= 0:
                        free[startable] = own
                        startable += 1
            elif code == _SHARE:
                own = number
                if edition == version[own]:
                    closed = head[own]
                    virtual[own] = key[closed]
                    updated[own] = now
                    end[closed] = now
                    active[own] -= 1
                    version[own] += 1
                    head[own] = after[closed]
                    if head[own] < 0:
                        tail[own] = -1
                    else:
                        before[head[own]] = -1
                        event_time[size] = now + max(key[head[own]] - virtual[own], 0) * active[own] / rate[own]
                        event_code[size] = _SHARE
                        event_number[size] = own
                        event_version[size] = version[own]
                        put = 1
            elif code == _FAIL:
                own = fail_resource[number]
                down[own] += 1
                version[own] += 1
                if kind[own] == SHARED:
                    task = head[own]
                    while task >= 0:
                        if start[task] >= 0:
                            lost[task] += now - start[task]
                        start[task] = -1
                        ready[task] = now
                        key[task] = tie[task]
                        task = after[task]
                    active[own] = 0
                elif running[own] >= 0:
                    task = running[own]
                    running[own] = -1
                    lost[task] += now - start[task]
                    start[task] = -1
                    end[task] = -1
                    arrived[waiting] = task  # into the queue again; its followers at its start have begun already
                    waiting += 1
                event_time[size] = fail_back[number]
                event_code[size] = _BACK
                event_number[size] = own
                event_version[size] = 0
                put = 1
            else:
                own = number
                down[own] -= 1
                if down[own] == 0:
                    if kind[own] == SHARED:
                        task = head[own]
                        head[own] = -1
                        tail[own] = -1
                        while task >= 0:
                            arrived[waiting] = task
                            waiting += 1
                            task = after[task]
                    elif head[own] >= 0:
                        free[startable] = own
                        startable += 1
            if closed >= 0:
                done += 1
                for edge in range(first_edge[closed], first_edge[closed + 1]):
                    if not edge_at_start[edge]:
                        to = edge_to[edge]
                        waits[to] -= 1
                        if waits[to] == 0:
                            cause[to] = closed
                            ready[to] = max(now, release[to])
                            if ready[to] > now:
                                event_time[size + put] = ready[to]
                                event_code[size + put] = _ARRIVAL
                                event_number[size + put] = to
                                event_version[size + put] = 0
                                put += 1
                            else:
                                arrived[waiting] = to
                                waiting += 1
            continue

        # one start
        if startable == 0:
            return done
        startable -= 1
        own = free[startable]
        if running[own] >= 0 or head[own] < 0 or down[own] > 0:
            continue
        task = head[own]
        head[own] = after[task]
        if head[own] < 0:
            tail[own] = -1
        else:
            before[head[own]] = -1
        running[own] = task
        start[task] = now
        end[task] = now + duration[task]
        if ready[task] < now and last[own] >= 0:
            cause[task] = last[own]
        event_time[size] = end[task]
        event_code[size] = _END
        event_number[size] = task
        event_version[size] = version[own]
        put = 1
        if begun[task]:  # its followers at its start did not wait for it to start again
            continue
        begun[task] = True
        for edge in range(first_edge[task], first_edge[task + 1]):
            if edge_at_start[edge]:
                to = edge_to[edge]
                waits[to] -= 1
                if waits[to] == 0:
                    cause[to] = task
                    ready[to] = max(now, release[to])
                    if ready[to] > now:
                        event_time[size + put] = ready[to]
                        event_code[size + put] = _ARRIVAL
                        event_number[size + put] = to
                        event_version[size + put] = 0
                        put += 1
                    else:
                        arrived[waiting] = to
                        waiting += 1
