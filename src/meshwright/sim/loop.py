"""The event loop: columns of tasks, edges, resources and failures go in; when each task ran, and why then, comes out.

One function for every size: it runs as it is on lists, and compiled by numba on arrays (`sim.engine` chooses; a test
runs both). Times are ticks (whole numbers, exact) or seconds, one kind in one problem. Every tie has a rule:

    at one time  first all that happens: ends, then failures, then returns, then releases; then what became ready joins
                 its queue; then one round of starts. What a start or an end opens at that same time comes after it, in
                 the same order, so that a task of no length has ended before the next round
    a round      every exclusive resource that is free starts one task; no resource sees another's start in it
    exclusive    one task at a time; of those that wait the earliest ready (fifo) or the lowest tie (priority), then the
                 lowest tie, then the lowest number
    shared       all tasks at once, each at rate / tasks; a task ends when its work is done
    failure      what the resource runs is cancelled and waits to run again, whole, until every failure of the resource
                 is over; work that ends as the failure comes has ended; what waited for its start does so no more
    cause        the last that a task waited for; of several at one time the lowest tie, then the lowest number
"""

from __future__ import annotations

from typing import Any, Final

FIFO: Final = 0
PRIORITY: Final = 1
SHARED: Final = 2

FREE: Final = 0  # why a task started when it did: nothing held it,
START: Final = 1  # the start of its cause,
END: Final = 2  # the end of its cause,
BUSY: Final = 3  # its resource, which ran its cause until then,
RELEASE: Final = 4  # its own release,
DOWN: Final = 5  # or its resource, which was down until then

OVERFLOW: Final = -1  # what `run` returns when failures cancelled more runs than the `lost` columns have room for

_ENDED, _SHARE, _FAIL, _BACK, _ARRIVAL = 0, 1, 2, 3, 4  # in the order in which they come at one time
_BITS: Final = 40  # an event is its code above these bits, and below them its number: of a task, resource or failure
_NUMBER: Final = (1 << _BITS) - 1


def run(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one loop, which numba compiles as a whole
    duration: Any,
    resource: Any,
    tie: Any,
    release: Any,
    waits: Any,
    first_edge: Any,
    edge_to: Any,
    kind: Any,
    rate: Any,
    fail_at: Any,
    fail_resource: Any,
    fail_back: Any,
    start: Any,
    end: Any,
    cause: Any,
    why: Any,
    lost_task: Any,
    lost_start: Any,
    lost_end: Any,
    lost_cause: Any,
    lost_why: Any,
    counts: Any,
    begun: Any,
    ready: Any,
    key: Any,
    child: Any,
    sibling: Any,
    head: Any,
    running: Any,
    last: Any,
    down: Any,
    active: Any,
    virtual: Any,
    updated: Any,
    due: Any,
    listed: Any,
    event_time: Any,
    event: Any,
    arrived: Any,
    free: Any,
    touched: Any,
) -> int:
    """How many tasks ended, or `OVERFLOW`.

    Columns of tasks: duration (work where the resource is shared), resource (-1: none), tie, release (not before),
    waits (edges into it).   Edges: first_edge[2 i] to first_edge[2 i + 1] of edge_to wait for the start of task i, from
    there to first_edge[2 i + 2] for its end.   Columns of resources: kind, rate (of shared ones).   Columns of
    failures: fail_at, fail_resource, fail_back (negative: never).   Filled here: start, end, cause and why of each
    task's last run (-1: it has none), the `lost` columns (one row a cancelled run), counts (lost rows, events).
    The rest is room to work in: `begun` to `sibling` and `arrived` a cell a task, `head` to `listed`, `free` and
    `touched` a cell a resource, `event_time` and `event` as `sim.engine` sizes them.
    """
    tasks = len(duration)
    done = 0
    now = event_time[0]  # zero, of the kind of these times
    lost = 0  # rows of the `lost` columns
    events = 0
    size = 0  # of the heap of events, ordered by time, then by code, then by number
    put = 0  # events to put into the heap: kept behind its last cell
    taken = 0  # of `arrived`: tasks that became ready at this moment, and how many of them joined their queue
    waiting = 0
    startable = 0  # resources in `free`, which may start a task in the next round
    turn = 0  # of the round that goes on, and its size
    round_size = 0
    changed = 0  # shared resources in `touched`, whose next end is to be found anew

    for task in range(tasks):
        if waits[task] == 0:
            if release[task] > now:
                ready[task] = release[task]
                why[task] = RELEASE
                event_time[size + put] = release[task]
                event[size + put] = _ARRIVAL << _BITS | task
                put += 1
            else:
                arrived[waiting] = task
                waiting += 1
    for number in range(len(fail_at)):
        event_time[size + put] = fail_at[number]
        event[size + put] = _FAIL << _BITS | number
        put += 1

    while True:
        # put what is new into the heap
        while put > 0:
            put -= 1
            time = event_time[size]
            item = event[size]
            place = size
            size += 1
            while place > 0:
                parent = (place - 1) >> 1
                if event_time[parent] < time or (event_time[parent] == time and event[parent] < item):
                    break
                event_time[place] = event_time[parent]
                event[place] = event[parent]
                place = parent
            event_time[place] = time
            event[place] = item

        opened = -1  # the task whose start (side 0) or end (side 1) this step is
        side = 0
        leaves = -1  # the resource whose first waiting task this step takes out of the queue

        # one start of the round
        if turn < round_size:
            own = free[turn]
            turn += 1
            listed[own] = False
            if running[own] >= 0 or head[own] < 0 or down[own] > 0:
                continue
            task = head[own]
            leaves = own
            opened = task
            running[own] = task
            start[task] = now
            end[task] = now + duration[task]
            if ready[task] < now:
                cause[task] = last[own]
                why[task] = BUSY if last[own] >= 0 else DOWN
            event_time[size] = end[task]
            event[size] = _ENDED << _BITS | task
            put = 1

        # what happens at this moment
        elif size > 0 and event_time[0] == now:
            events += 1
            item = event[0]
            size -= 1
            if size > 0:
                time = event_time[size]
                final = event[size]
                place = 0
                below = 1
                while below < size:
                    if below + 1 < size and (
                        event_time[below + 1] < event_time[below]
                        or (event_time[below + 1] == event_time[below] and event[below + 1] < event[below])
                    ):
                        below += 1
                    if time < event_time[below] or (time == event_time[below] and final < event[below]):
                        break
                    event_time[place] = event_time[below]
                    event[place] = event[below]
                    place = below
                    below = 2 * place + 1
                event_time[place] = time
                event[place] = final
            code = item >> _BITS
            number = item & _NUMBER
            if code == _ENDED:
                own = resource[number]
                if own < 0:
                    opened = number
                    side = 1
                    done += 1
                elif running[own] == number and end[number] == now:  # else a failure cancelled it
                    opened = number
                    side = 1
                    done += 1
                    running[own] = -1
                    last[own] = number
                    if head[own] >= 0 and not listed[own]:
                        listed[own] = True
                        free[startable] = own
                        startable += 1
            elif code == _SHARE:
                if active[number] > 0 and due[number] == now:  # else what shares it has changed since
                    opened = head[number]
                    side = 1
                    done += 1
                    leaves = number
                    end[opened] = now
                    virtual[number] = key[opened]
                    updated[number] = now
                    due[number] = -1
                    active[number] -= 1
                    if not listed[number]:
                        listed[number] = True
                        touched[changed] = number
                        changed += 1
            elif code == _FAIL:
                own = fail_resource[number]
                down[own] += 1
                if fail_back[number] >= fail_at[number]:
                    event_time[size] = fail_back[number]
                    event[size] = _BACK << _BITS | number
                    put = 1
                stack = waiting  # tasks to cancel, kept behind those that arrived
                if running[own] >= 0:
                    arrived[stack] = running[own]
                    stack += 1
                    running[own] = -1
                elif active[own] > 0:
                    arrived[stack] = head[own]
                    stack += 1
                    head[own] = -1
                    active[own] = 0
                    due[own] = -1
                while stack > waiting:
                    stack -= 1
                    task = arrived[stack]
                    if lost == len(lost_task):
                        return OVERFLOW
                    lost_task[lost] = task
                    lost_start[lost] = start[task]
                    lost_end[lost] = now
                    lost_cause[lost] = cause[task]
                    lost_why[lost] = why[task]
                    lost += 1
                    start[task] = -1
                    end[task] = -1
                    if kind[own] == SHARED:  # waits in a plain chain until the resource is back
                        down_child = child[task]
                        down_sibling = sibling[task]
                        if down_child >= 0:
                            arrived[stack] = down_child
                            stack += 1
                        if down_sibling >= 0:
                            arrived[stack] = down_sibling
                            stack += 1
                        sibling[task] = head[own]
                        head[own] = task
                    else:  # into the queue again; what waited for its start does so no more
                        arrived[waiting] = task
                        waiting += 1
                        break
            elif code == _BACK:
                own = fail_resource[number]
                down[own] -= 1
                if down[own] == 0:
                    last[own] = -1
                    if kind[own] == SHARED:
                        task = head[own]
                        head[own] = -1
                        while task >= 0:
                            arrived[waiting] = task
                            waiting += 1
                            task = sibling[task]
                    elif head[own] >= 0 and not listed[own]:
                        listed[own] = True
                        free[startable] = own
                        startable += 1
            else:
                arrived[waiting] = number
                waiting += 1

        # a task that became ready: into the queue of its resource, or started where nothing is waited for
        elif taken < waiting:
            task = arrived[taken]
            taken += 1
            if taken == waiting:
                taken = 0
                waiting = 0
            own = resource[task]
            if own < 0:
                opened = task
                start[task] = now
                end[task] = now + duration[task]
                event_time[size] = end[task]
                event[size] = _ENDED << _BITS | task
                put = 1
            elif kind[own] == SHARED and down[own] > 0:
                sibling[task] = head[own]
                head[own] = task
            else:
                child[task] = -1
                sibling[task] = -1
                if kind[own] == SHARED:
                    opened = task
                    start[task] = now
                    if ready[task] < now:
                        cause[task] = -1
                        why[task] = DOWN
                    if active[own] > 0:
                        virtual[own] += (now - updated[own]) * rate[own] / active[own]
                    else:
                        virtual[own] = 0
                    updated[own] = now
                    active[own] += 1
                    key[task] = virtual[own] + duration[task]
                    if not listed[own]:
                        listed[own] = True
                        touched[changed] = own
                        changed += 1
                else:
                    key[task] = tie[task] if kind[own] == PRIORITY else ready[task]
                    if running[own] < 0 and down[own] == 0 and not listed[own]:
                        listed[own] = True
                        free[startable] = own
                        startable += 1
                # the queue is a pairing heap: `head` its first task, `child` and `sibling` its links
                root = head[own]
                if root < 0:
                    head[own] = task
                elif key[task] < key[root] or (
                    key[task] == key[root] and (tie[task] < tie[root] or (tie[task] == tie[root] and task < root))
                ):
                    child[task] = root
                    head[own] = task
                else:
                    sibling[task] = child[root]
                    child[root] = task

        # the next end on each shared resource that changed
        elif changed > 0:
            while changed > 0:
                changed -= 1
                own = touched[changed]
                listed[own] = False
                if active[own] > 0:
                    ends = now + max(key[head[own]] - virtual[own], 0) * active[own] / rate[own]
                    if due[own] != ends:
                        due[own] = ends
                        event_time[size + put] = ends
                        event[size + put] = _SHARE << _BITS | own
                        put += 1

        # the next round, or the next moment
        elif startable > 0:
            turn = 0
            round_size = startable
            startable = 0
        elif size == 0 or done == tasks:
            counts[0] = lost
            counts[1] = events
            return done
        else:
            now = event_time[0]

        # the first task leaves its queue: pairs of its children from left to right, then all pairs into one
        if leaves >= 0:
            pairs = -1
            left = child[head[leaves]]
            while left >= 0:
                right = sibling[left]
                rest = -1
                if right >= 0:
                    rest = sibling[right]
                    if key[right] < key[left] or (
                        key[right] == key[left]
                        and (tie[right] < tie[left] or (tie[right] == tie[left] and right < left))
                    ):
                        left, right = right, left
                    sibling[right] = child[left]
                    child[left] = right
                sibling[left] = pairs
                pairs = left
                left = rest
            root = pairs
            if root >= 0:
                pairs = sibling[root]
                while pairs >= 0:
                    right = pairs
                    pairs = sibling[right]
                    if key[right] < key[root] or (
                        key[right] == key[root]
                        and (tie[right] < tie[root] or (tie[right] == tie[root] and right < root))
                    ):
                        root, right = right, root
                    sibling[right] = child[root]
                    child[root] = right
                sibling[root] = -1
            head[leaves] = root

        # what waited for that start or end; a task that starts again was not waited for again
        if opened >= 0 and (side == 1 or not begun[opened]):
            begun[opened] = True
            for edge in range(first_edge[2 * opened + side], first_edge[2 * opened + side + 1]):
                to = edge_to[edge]
                before = cause[to]
                if (
                    before < 0
                    or ready[to] < now
                    or tie[opened] < tie[before]
                    or (tie[opened] == tie[before] and opened < before)
                ):
                    cause[to] = opened
                    why[to] = START + side
                    ready[to] = now
                waits[to] -= 1
                if waits[to] == 0:
                    if release[to] > now:
                        ready[to] = release[to]
                        cause[to] = -1
                        why[to] = RELEASE
                        event_time[size + put] = release[to]
                        event[size + put] = _ARRIVAL << _BITS | to
                        put += 1
                    else:
                        arrived[waiting] = to
                        waiting += 1
