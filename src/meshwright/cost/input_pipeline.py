"""Steps and the workers that prepare their sequences go in, as columns; how long a step waits for input comes out.

A queue hides short dips of the supply. A supply below the demand for good empties any queue, and then each step takes
as long as its sequences take to prepare.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, maximum
from meshwright.base.traced import formula


@formula
def prepare_s(sequences: Any, workers: Any, worker_sequences_per_s: N) -> N:
    """Seconds in which so many workers prepare the sequences of one step.

    Source: chapter "Training systems", section 10.4.1.
    """
    return sequences / (workers * worker_sequences_per_s)


@formula
def input_wait_s(step_s: N, sequences: Any, workers: Any, worker_sequences_per_s: Any) -> N:
    """What a step of step_s, without waiting for input, waits for its sequences in the steady state; not below zero.

    Source: chapter "Training systems", section 10.4.1. Leaves out dips of the supply, which a queue hides or does not.
    """
    return maximum(prepare_s(sequences, workers, worker_sequences_per_s), step_s) - step_s


@formula
def outage_sequences(demand_sequences_per_s: N, left_sequences_per_s: N, outage_s: Any) -> Any:
    """Sequences that a queue must hold for the steps not to notice an outage; not below zero.

    Source: chapter "Training systems", section 10.4.1.
    """
    return (maximum(demand_sequences_per_s, left_sequences_per_s) - left_sequences_per_s) * outage_s


@formula
def refill_s(sequences: Any, supply_sequences_per_s: N, demand_sequences_per_s: N) -> N:
    """Seconds until the whole supply, above the demand, has put so many sequences back.

    Source: chapter "Training systems", section 10.4.1.
    """
    return sequences / (supply_sequences_per_s - demand_sequences_per_s)
