"""Times of micro-batches, sessions and devices go in; token intervals and throughput of a running batch come out.

A replica decodes a batch step after step: each step gives every session of the batch one token. With several stages
the batch is dealt to as many micro-batches, so that every stage works on one while the others work on the rest.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, maximum, minimum, where
from meshwright.base.traced import formula


@formula
def micro_batch_count(sessions: Any, stages: Any) -> Any:
    """Micro-batches in flight: one a stage, as far as there are sessions."""
    return minimum(stages, sessions)


@formula
def busy_s(chain_s: N, large_s: Any, small_s: Any, large_count: Any, micro_batch_count: Any) -> N:
    """Seconds of the slowest stage for all micro-batches: `large_count` of the larger size, the rest of the smaller.

    One micro-batch has the stages to itself, one after the other: its next round waits for all of them.
    """
    return where(micro_batch_count > 1, large_s * large_count + small_s * (micro_batch_count - large_count), chain_s)


@formula
def interval_s(chain_s: N, busy_s: N) -> N:
    """Seconds between two tokens of a session, when steps follow each other without end.

    chain_s: the largest micro-batch once through all stages; a session's next token waits for its last one.   busy_s:
    the slowest stage for all micro-batches, one at a time. The longer cycle decides, as in a cyclic pipeline, which is
    exact where one stage is the slowest for both sizes of micro-batch. Leaves out launch times and the way of a token
    back to the first stage.
    """
    return maximum(chain_s, busy_s)


@formula
def prompts_s(prompt_s: N, prompt_count: Any, token_count: Any) -> N:
    """Seconds of prompts a step: in the `token_count` steps of a session, `prompt_count` run, whole, one at a time."""
    return prompt_s * (prompt_count / token_count)


@formula
def turn_s(interval_s: N, own_prompt_s: Any, busy_s: Any) -> N:
    """Seconds a token that a session takes up its place in the batch, its own prompt included.

    own_prompt_s: that prompt through all stages, a token.   busy_s: of the slowest stage, with all prompts.
    """
    return maximum(interval_s + own_prompt_s, busy_s)


@formula
def throughput_tokens_per_s(sessions: Any, turn_s: N) -> N:
    """Tokens a second of `sessions` in flight that each get one every `turn_s`."""
    return sessions / turn_s


@formula
def device_tokens_per_gpu_s(whole_tokens_per_s: N, devices: Any) -> N:
    """Tokens a second and device, idle devices included: they are paid for."""
    return whole_tokens_per_s / devices


@formula
def token_gpu_s(token_count: Any, each_tokens_per_gpu_s: N) -> N:
    """Device-seconds of `token_count` tokens, idle devices included."""
    return token_count / each_tokens_per_gpu_s
