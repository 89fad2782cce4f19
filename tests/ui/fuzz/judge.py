"""One run of the program goes in; why it is not an acceptable end comes out, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.ui.program import CODED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ui.program import Outcome

# Amounts that may fall below zero: what is left over, what a deadline leaves, and what a change saves or adds.
_SIGNED = ("free_bytes", "free_outside_bytes", "saving_s", "increase_s", "slack_s", "limit_s", "comm_wait_s", "left_s")
_AMOUNTS = ("_bytes", "_s", "_count", "_per_step", "_per_token", "parameters", "max_sessions", "max_kv_tokens")


def complaint(outcome: Outcome, *, as_json: bool = True) -> str | None:
    """The program ends in 0, 1 or 2; a 2 is coded and says its cause and its fix; stdout is the answer alone."""
    if outcome.code not in {0, 1, 2}:
        return f"exit {outcome.code}"
    return _of_stderr(outcome) or (_of_document(outcome) if as_json else _of_text(outcome))


def _of_stderr(outcome: Outcome) -> str | None:
    if "Traceback" in outcome.err:
        return "a traceback"
    if outcome.code == 2:
        return None if CODED.match(outcome.err) else "exit 2 without a coded message on stderr"
    return None if outcome.err.startswith("wrote ") or not outcome.err else "an answer with a message on stderr"


def _of_text(outcome: Outcome) -> str | None:
    if outcome.code == 2:
        return "an answer beside an error" if outcome.out else None
    return None if outcome.out.strip() or outcome.err else "an empty answer"


def _of_document(outcome: Outcome) -> str | None:
    try:
        answer = outcome.answer
    except ValueError as problem:
        return f"stdout is not one JSON document: {problem}"
    return _of_error(answer, outcome) if outcome.code == 2 else _of_answer(answer, outcome)


def _of_error(answer: Any, outcome: Outcome) -> str | None:
    error = answer.get("error", {})
    for name in ("code", "message", "cause", "fix"):
        if not isinstance(error.get(name), str) or not error[name].strip():
            return f"an error without its {name}"
    if not outcome.err.startswith(error["message"]):
        return "stderr and stdout tell different errors"
    return None


def _of_answer(answer: Any, outcome: Outcome) -> str | None:
    verdict = answer.get("verdict", {}).get("answer")
    if (verdict == "yes") != (outcome.code == 0):
        return f"exit {outcome.code} with the verdict {verdict!r}"
    negative = next(_negative(answer), None)
    return None if negative is None else f"a negative amount: {negative}"


def _negative(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _negative(item, f"{path}.{key}") if not key.endswith(_SIGNED) else ()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _negative(item, f"{path}[{index}]")
    elif isinstance(value, (int, float)) and value < 0 and any(word in path for word in _AMOUNTS):
        yield f"{path} = {value}"
