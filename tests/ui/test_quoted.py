"""The reader of quoted commands itself."""

from __future__ import annotations

from tests.ui.quoted import commands, matches, renewed

_PAGE = """Text.

```console
$ make demo    # not ours
$ meshwright --version  # ours
an old output
$ meshwright study \\
    list -q
```

```python
$ meshwright not a console
```
"""


def test_commands_are_found_with_what_is_quoted_under_them():
    first, second = commands(_PAGE)
    assert (first.arguments, first.output) == (["--version"], "an old output")
    assert (second.arguments, second.output) == (["study", "list", "-q"], None)


def test_a_page_is_renewed_once():
    page = renewed(_PAGE)
    assert "meshwright, version " in page
    assert "an old output" not in page
    assert renewed(page) == page


def test_dots_stand_for_any_lines():
    assert matches("a\n...\nd", "a\nb\nc\nd\n")
    assert matches("a\n...", "a\nb\nc\n")
    assert not matches("a\n...\nd", "a\nb\nc\n")
    assert not matches("a", "a\nb\n")
