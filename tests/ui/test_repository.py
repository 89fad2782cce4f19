"""What the repository's own files say: pages that quote the program, and words that belong on no page."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import meshwright as package
from tests.campaign import PARTS
from tests.ui.program import ROOT, meshwright
from tests.ui.quoted import commands, matches

_PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
)
# Spelled in two halves, so that this file does not hold them. Places of one machine, and of registries, are no page's.
_FOREIGN = tuple(
    "".join(halves)
    for halves in (
        ("/wo", "rk/"), ("san", "dbox"), ("work", "place"), (".lib", "rary/"), ("/ho", "me/"), ("/roo", "t/"),
        ("/Us", "ers/"), ("/tm", "p/"), ("py", "pi.org"), ("python", "hosted"), ("npm", "js.org"), ("deb", "ian.org"),
        ("proxy.go", "lang.org"), ("crates", ".io"),
    )
)  # fmt: skip


@cache
def texts():
    """Every text file that git tracks or would track; what tools leave behind is ignored."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout, which knows the files of the repository from what tools left there")
    line = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(line, cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode("utf-8").split("\0") if name]
    whole = {str(file.relative_to(ROOT)): file.read_bytes() for file in files if file.is_file()}
    return {name: data.decode("utf-8") for name, data in whole.items() if b"\0" not in data}


@pytest.mark.parametrize("word", _FOREIGN)
def test_no_file_names_one_machine_or_a_registry(word):
    assert [name for name, text in texts().items() if word in text or word in name] == []


def test_no_file_holds_a_secret_or_a_merge_left_open():
    begin = re.compile(r"^(<{7} |>{7} |-----BEGIN [A-Z ]*PRIVATE KEY-----)", re.MULTILINE)
    assert [name for name, text in texts().items() if begin.search(text)] == []


def test_no_page_has_a_place_left_to_fill():
    marks = re.compile("|".join(("@@" + "[A-Z]+@@", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bX" + r"XX\b")))
    assert [name for name, text in texts().items() if marks.search(text)] == []


@pytest.mark.parametrize("page", _PAGES)
def test_every_command_of_a_page_runs_and_prints_what_the_page_quotes(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for item in commands(text):
        found = meshwright(*item.arguments)
        refused = item.output is not None and "error[" in item.output
        assert found.code in ({2} if refused else {0, 1}), f"{item.command}: {found.err}"
        assert item.output is None or matches(item.output, found.out), f"python -m tests.ui.quoted {page}"


def test_the_tests_read_the_package_of_their_own_checkout():
    """A PYTHONPATH that was left set would have the gates judge another tree."""
    assert Path(package.__file__).is_relative_to(ROOT)


def test_every_file_with_tests_of_a_campaign_lies_in_one_part_of_it():
    marked = [name for name, text in texts().items() if name.startswith("tests/") and "pytest.mark.campaign" in text]
    parts = [part for part in PARTS.values() if part.marks == "campaign"]
    found = {
        name: sum(name.startswith(part.folder) and name != part.without for part in parts)
        for name in marked
        if name != Path(__file__).relative_to(ROOT).as_posix()
    }
    assert len(found) > 10
    assert set(found.values()) == {1}, found


def test_the_first_page_shows_a_plan_and_its_output():
    shown = list(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    assert any(item.arguments[:2] == ["plan", "serve"] and item.output for item in shown)


@pytest.mark.parametrize("page", _PAGES)
def test_links_between_pages_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", _PAGES)
def test_make_targets_that_a_page_names_exist(page):
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"(?:^\$ |`)make ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= known
