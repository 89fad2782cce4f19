"""A result as the document of the front door."""

from __future__ import annotations

import json

import numpy as np
import pytest

from meshwright.base.result import (
    Basis,
    Candidate,
    Excluded,
    Lever,
    Result,
    Source,
    Verdict,
    as_json,
    error_json,
    plain,
)


def result() -> Result:
    excluded = Excluded(code="LAY020", reason="too large", nearest=None, limit="capacity")
    candidate = Candidate(
        id="replicas=1,tp=2,pp=1",
        layout={"tp": 2},
        fits=False,
        excluded=excluded,
        memory={"per_rank_bytes": np.int64(5)},
        measures={"step_time_s": np.float64(0.1)},
    )
    return Result(
        command="plan serve",
        verdict=Verdict(answer="no", text="too large"),
        inputs={"model": None},
        candidates=(candidate,),
        sensitivity=(Lever(parameter="system.x", change="doubled", value=2.0, unit="s", saving_s=0.5),),
        sources=(Source(key="k", title="t", place="p", read="2026-11-29"),),
        basis={"memory": Basis.FORMULA.value},
        body={"memory": {"a_bytes": np.int64(3)}},
    )


def test_the_document_has_the_blocks_of_the_front_door_and_survives_json():
    document = as_json(result())
    names = ["schema_version", "command", "verdict", "memory", "inputs", "defaulted", "best", "candidates", "flips"]
    names += ["sensitivity", "not_modelled", "sources"]
    assert [name for name in document if name in names] == names
    assert json.loads(json.dumps(document)) == document
    assert document["best"] is None


def test_measures_stand_beside_the_rest_of_a_candidate():
    candidate = as_json(result())["candidates"][0]
    assert candidate["step_time_s"] == 0.1
    assert "measures" not in candidate
    assert candidate["excluded"]["nearest"] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float64(0.1), 0.1),
        (np.array([1, 2]), [1, 2]),
        ((1, (2, 3)), [1, [2, 3]]),
        (Basis.ASSUMED, "assumed"),
        ({1: Basis.CONFIG}, {"1": "config"}),
        (Verdict(answer="yes", text="x"), {"answer": "yes", "text": "x"}),
        (None, None),
    ],
)
def test_plain_values_keep_their_digits(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)


def test_a_failure_is_a_document_too():
    document = error_json("LAY003", "tp=12", "tp=8")
    assert document["error"]["message"] == "error[LAY003]: tp=12"
    assert document["schema_version"] == as_json(result())["schema_version"]


@pytest.mark.parametrize(("answer", "exit_code"), [("yes", 0), ("no", 1), ("unknown", 1)])
def test_only_yes_exits_0(answer, exit_code):
    assert Verdict(answer=answer, text="").exit_code == exit_code
