"""The error tree: messages, exit codes, and a list of every code that the source can raise."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import pytest

from meshwright.base import errors
from meshwright.base.errors import InternalError, LayoutError, MeshwrightError, UserError, nearest, suggest

MEANING = {
    "CKP001": "a save without bytes or a rate",
    "CKP002": "captures that are missing, too many or out of order",
    "CKP003": "staging buffers out of range",
    "CKP004": "a commit before its call returned",
    "CKP005": "storage, readers or steps out of range",
    "CKP006": "a save whose size is stated twice, or not at all",
    "CKP007": "times between failures that are missing, zero or stated twice",
    "CKP008": "an interval shorter than its save",
    "CKP009": "failures so frequent that a cycle does not end",
    "COL001": "an unknown collective algorithm",
    "COL002": "an algorithm that does not take this number of ranks",
    "COL003": "two algorithms of which one is faster at every size",
    "COL004": "a search for settings that save nothing",
    "COL005": "no settings to choose from",
    "COL006": "measured times of a pair that cannot be",
    "COL010": "an operation that an algorithm does not have",
    "COL011": "segments out of range",
    "COL012": "nodes that do not divide the ranks",
    "COL013": "extents of a torus that do not hold the ranks",
    "COL014": "sizes of an uneven all_to_all that are no matrix of the ranks, or have no common unit",
    "COL015": "a program of sends that is wrong",
    "COL016": "a trace of too many ranks, or of a piece that does not exist",
    "COL017": "a busbw of an unknown operation, or of no ranks",
    "COL020": "a file that is no output of nccl-tests, or holds more than one table",
    "COL021": "a row of nccl-tests that is broken, or missing",
    "COL022": "a program of nccl-tests that no operation stands for",
    "COL023": "a run whose ranks, hosts or times the file does not tell",
    "COL024": "an operation or family that a run does not tell, or contradicts",
    "COL025": "a run on more ranks or boxes than the system has",
    "COL026": "NICs, shares or rates of a check that are out of range",
    "COL027": "a table of nccl-tests whose end is missing",
    "COL030": "more sends than fit into memory",
    "COL031": "flows whose rates change too often",
    "COL033": "boxes that hold unequal parts of a group",
    "COL034": "ranks that no one switch joins",
    "COL035": "ranks, bytes or axes of a collective out of range",
    "COL036": "other traffic that cannot be",
    "COL037": "a switch that nobody measured to add",
    "COL050": "paths of sends that cross too many links together",
    "ENG001": "an unknown engine",
    "ENG002": "a share of memory or a block size out of range",
    "ENG003": "an engine's budget that weights and reserve exceed",
    "ENG004": "an engine's KV that one longest request exceeds",
    "ENG005": "a rule of an engine's file that is no condition",
    "ENG006": "an engine that does not do what is asked of it",
    "ENG027": "a share of memory that leaves too little beside what an engine counts",
    "ENG010": "an axis that an engine does not have",
    "ENG011": "a schedule, recompute, offload or zero that an engine does not have",
    "ENG012": "attention heads that an engine does not divide",
    "ENG013": "KV heads that an engine neither divides nor repeats",
    "ENG014": "a width that an engine does not divide",
    "ENG015": "a vocabulary that an engine does not divide",
    "ENG016": "experts that an engine does not lay over these ranks",
    "ENG017": "an expert width that an engine does not divide",
    "ENG018": "layers that an engine does not deal to these stages",
    "ENG019": "virtual stages that an engine does not take",
    "ENG020": "micro-batches that an engine's schedule does not take",
    "ENG021": "a sequence that an engine does not divide",
    "ENG022": "a shard that cuts a block of scales, which an engine refuses",
    "ENG023": "a shard that cuts a group of scales, which an engine refuses",
    "ENG024": "sharded state that an engine does not join with these axes",
    "ENG025": "sharded activations that an engine does not have here",
    "ENG026": "ranks that an engine does not arrange",
    "IO001": "text that is no number",
    "IO002": "a unit that is missing, unknown or of another dimension",
    "IO003": "a number out of range, or not whole where it must be",
    "IO010": "a file that cannot be read",
    "IO011": "a file that is not TOML",
    "IO012": "a file that is not JSON",
    "IO013": "a value of the wrong type, or one that is missing",
    "IO014": "a path to a field that does not exist",
    "IO015": "a key that no field has",
    "IO020": "an unknown study",
    "IO021": "an input of a study that is wrong or unknown",
    "IO022": "a study that names no public function",
    "IO023": "inputs for which a study has no answer",
    "IO024": "an unknown step of a study",
    "IO030": "a command line that cannot be parsed",
    "IO031": "an input that is too large to work on",
    "IO032": "a --set that is no PATH=VALUE of a noun",
    "IO033": "a file that cannot be written",
    "IO034": "an unknown kind of the catalog",
    "IO035": "an answer that cannot be written to stdout",
    "IO036": "an option without the one that it belongs to",
    "IO037": "two answers in one file",
    "IO040": "a file that holds no answer of this program",
    "IO041": "an answer of another schema version",
    "IO042": "a saved error where an answer is wanted",
    "IO043": "two answers of different commands",
    "IO044": "a path of an answer at which no number stands",
    "IO045": "a number that no formula gives",
    "IO046": "an answer of a command that has no expressions",
    "IO050": "a form of output whose package is not installed",
    "IO051": "a timeline longer than its form can count",
    "JOB001": "sizes of a job out of range",
    "JOB002": "a deadline that is not above zero",
    "JOB003": "sessions that miss their deadline",
    "JOB004": "a fault that is not spelled as one",
    "JOB005": "a part that the system does not have",
    "JOB006": "a number or option that the discipline does not know",
    "JOB007": "experts read that no step of the model can read",
    "JOB008": "tokens that come too late",
    "JOB022": "a padding that leaves no token of a step",
    "JOB023": "an interval between saves that no save or no failure lets end",
    "JOB024": "an offload whose host rates are not known",
    "JOB060": "an unknown convention of counting FLOPs",
    "JOB020": "planned stops that leave nothing of a deadline",
    "JOB021": "options of a training plan that contradict each other or are no amounts",
    "JOB026": "a plan by cost without a price",
    "JOB027": "more usable memory than a device has",
    "JOB028": "changes for the worse that are none, or too many",
    "JOB029": "a plan that holds nothing to degrade",
    "JOB040": "an unknown training recipe",
    "JOB041": "an unknown optimizer",
    "JOB042": "fields of a recipe that contradict each other",
    "JOB043": "adapters of a matrix that the model lacks",
    "JOB044": "an unknown published figure of low precision",
    "JOB045": "sizes of gradients or a scale that are not above zero",
    "JOB046": "logged memory that is not there, or that no run can have",
    "JOB047": "adapters of one matrix alone",
    "JOB061": "a step that cannot be dealt evenly to its ranks",
    "JOB062": "sizes or rates that no cast has",
    "JOB063": "an unknown report of published utilisation",
    "JOB064": "a format that the accelerator has no peak in",
    "JOB066": "a run that a paper does not report",
    "JOB065": "a deadline, efficiency or padding that leaves nothing",
    "JOB080": "devices, lateness or steps of a straggler model out of range",
    "JOB081": "too few waits to tell a slow device",
    "JOB082": "a batch or a noise scale out of range",
    "JOB083": "devices or times of a scaling table out of range",
    "JOB084": "an exposed part longer than the whole",
    "JOB085": "measured steps or devices that cannot be compared",
    "JOB086": "a hardware change out of range",
    "JOB087": "rates, counts or a queue of an input pipeline out of range",
    "JOB088": "stages that are unnamed or named twice, or an outage of none of them",
    "JOB089": "a trained position beyond the assigned one",
    "JOB050": "sizes of a scale sweep out of range",
    "JOB100": "demands and nodes of a pool that do not match, or are no memory",
    "JOB101": "a window, rate or round trip of a pool that cannot be",
    "JOB102": "reads, periods or operations of a pool out of range",
    "JOB103": "a node or a region of a pool that is not there",
    "JOB104": "a region in a state that does not allow the operation",
    "JOB105": "an export of more than is free",
    "JOB106": "a region that is mapped twice",
    "JOB107": "access to a region without the right",
    "JOB108": "bytes outside their region",
    "JOB109": "a region taken back before it is returned",
    "JOB110": "a read before the completion of a write",
    "JOB111": "a read before a write is visible",
    "JOB112": "a region returned while it is read or written",
    "JOB113": "two at once on the same bytes",
    "JOB114": "an operation of a pool without its name, or a completion of none",
    "JOB115": "times of connection set-up that cannot be",
    "JOB116": "tokens or times of a launch budget that cannot be",
    "JOB117": "partial results of different lengths",
    "JOB118": "a matrix product or a grid that cannot be",
    "JOB130": "documents, positions or a window of which no pairs can be counted",
    "JOB131": "ranks that do not each get a position of a context",
    "JOB132": "slices of a context that no softmax makes, or that hold no position",
    "JOB133": "rates, times or shares of a store or a machine that cannot be",
    "JOB134": "facts of a large model, or a setting of its instance, that cannot be",
    "JOB051": "devices or machines of a reliability question out of range",
    "JOB120": "a routing of experts that is not known",
    "JOB121": "a recording of routing that cannot be",
    "JOB123": "a recording of routing of another model",
    "JOB124": "tokens, groups, copies or a capacity of experts out of range",
    "JOB125": "more choices than are drawn",
    "JOB126": "a Parquet file without the package that reads it",
    "JOB127": "a column of Parquet that is no column of numbers",
    "JOB128": "more tokens than were recorded",
    "JOB140": "mixtures of experts that are not alike, of which one answer is asked",
    "JOB129": "rows of experts, or a capacity of theirs, out of range",
    "LAY001": "a layout field that is unknown or out of range",
    "LAY002": "more devices than the system has",
    "LAY003": "tp does not divide the attention heads",
    "LAY004": "tp and the KV heads do not divide each other",
    "LAY005": "tp does not divide a feed-forward width",
    "LAY006": "etp does not divide the expert width",
    "LAY007": "ep does not divide the experts",
    "LAY008": "ep x etp does not cover a stage a whole number of times",
    "LAY009": "ep x etp and dp_shard x cp cut across each other",
    "LAY010": "more stages than layers",
    "LAY012": "an axis that the plan has no time model for",
    "LAY013": "too many layouts to list",
    "LAY020": "memory that does not suffice",
    "LAY021": "power that does not suffice",
    "LAY030": "a recompute policy that is not known",
    "LAY036": "cp that does not cut the sequence into equal shards a rank",
    "LAY050": "cp and tp that do not divide the heads that ulysses deals out",
    "LAY051": "cp whose split or exchange cannot pass the state of a recurrence on",
    "LAY053": "copies of attention whose contexts lie over ranks",
    "LAY052": "experts over ranks of cp that send each other no rows",
    "LAY034": "host memory that does not suffice for an offload",
    "LAY035": "an offload that is not known",
    "LAY040": "experts and copies that do not fill groups alike",
    "LAY041": "a placement of experts that is not known",
    "LAY042": "an exact placement without the package that solves it",
    "LAY043": "ranks of experts and attention that do not go together",
    "LAY031": "a training run that ends after its deadline",
    "LAY032": "a global batch that no layout takes",
    "LAY033": "a micro-batch that divides no share of the global batch",
    "LAY037": "a schedule and stages that do not go together",
    "MOD001": "an unknown model",
    "MOD002": "an unknown family",
    "MOD003": "a config without a model_type",
    "MOD004": "a file that holds no config",
    "MOD005": "a field of a config that is missing",
    "MOD006": "a field of a config of the wrong type",
    "MOD007": "sizes of a config that do not go together",
    "MOD008": "heads that do not go together",
    "MOD009": "layer types that are unknown or miscounted",
    "MOD010": "experts that do not go together",
    "MOD011": "a model without layers",
    "MOD012": "a model that is too large",
    "MOD013": "a field whose value is not supported",
    "MOD014": "a size that is not positive",
    "MOD015": "an activation or a stretching of positions that a run does not know",
    "MOD020": "an unknown weight format",
    "MOD021": "an unreadable quantization",
    "MOD022": "a quantization that is not supported",
    "MOD023": "an unknown format of the KV cache",
    "MOD024": "an unknown number format",
    "MOD025": "bits that make no number format",
    "MOD030": "a question that has no model for a mixer",
    "MOD031": "a layer that shares keys and values which no layer before it keeps",
    "MOD041": "layers whose pages are not known",
    "RUN031": "processes, or groups of them, that cannot measure",
    "RUN035": "a layout of another number of processes than are measured",
    "RUN036": "a group of ranks that is not measured",
    "RUN037": "a calibration without its date and source",
    "RUN001": "a run without torch",
    "RUN002": "CUDA devices that are not there, or too few",
    "RUN003": "processes that are not the ranks of the layout",
    "RUN004": "a model without a class of a real run",
    "RUN005": "a part of a layout that no run does yet, or that means nothing in one",
    "RUN006": "virtual stages without a layer, or not those of the schedule",
    "RUN007": "a global batch that is no whole number of micro-batches",
    "RUN008": "positions or token numbers that tp can not cut",
    "RUN009": "a recipe that a run does not keep",
    "RUN010": "a rank that was killed, left or raised",
    "RUN011": "a rank that stood still while others waited for it",
    "RUN012": "a number of a run out of range, a schedule stated twice, or flags that exclude each other",
    "RUN013": "a recompute policy that a run does not know",
    "RUN014": "two slot orders of one rank, not resolved into one",
    "RUN015": "copies of a weight that differ between ranks",
    "RUN016": "a file that is not there, is no safetensors file, or is cut short",
    "RUN017": "a tensor that is missing, or has another shape than the model",
    "RUN018": "no layout of so many ranks to compare",
    "RUN019": "a folder in which weights can not be written anew",
    "RUN041": "records of calls that are not those of one run",
    "RUN042": "sleep times that are unknown, missing or out of range",
    "RUN043": "stages, micro-batches or repeats of slept steps out of range",
    "RUN044": "a record of calls that cannot be written",
    "SCH001": "micro-batches that a schedule does not take",
    "SCH002": "tasks that wait for each other",
    "SCH003": "an unknown schedule",
    "SCH004": "stages that a schedule does not take",
    "SCH005": "more virtual stages than layers",
    "SCH006": "sizes of a schedule out of range",
    "SCH007": "figures that are not one a stage",
    "SCH008": "saved sets and messages above the limit",
    "SCH009": "work that takes no time",
    "SCH010": "a slot, a rank or a count that a schedule does not have",
    "SCH011": "a schedule without a formula",
    "SCH012": "a weight gradient longer than its backward",
    "SCH020": "pieces or gaps out of range",
    "SCH021": "layers or buckets out of range",
    "SCH030": "the life of a buffer that is not spelled as one",
    "SCH031": "a buffer that is freed before it is allocated",
    "SCH032": "a buffer of a kind without a size",
    "SCH033": "ranks or bytes of buffers out of range",
    "SYS001": "an unknown system",
    "SYS002": "an unknown accelerator, link or calibration",
    "SYS003": "a source or a basis that is missing or unknown",
    "SYS004": "a rate of both directions, a sparse one, or ports that do not add up",
    "SYS005": "an accelerator without a rate for the format",
    "SYS006": "counts of a system out of range",
    "SYS007": "boxes with no NIC between them",
    "SYS008": "a part that a system does not name",
    "SYS009": "a rate or a memory of zero",
    "SYS010": "several systems where one is taken",
    "SYS011": "a box whose power is not known",
    "SYS012": "a price below zero",
    "SYS013": "a system that is named twice",
    "SYS030": "watts or prices that no site has",
    "SYS031": "counts of a site out of range",
    "SYS032": "a stage of a read without its time, or a clock that cannot be",
    "SYS033": "times of an initiator that cannot be",
    "SYS034": "a grid, a job or free devices that cannot be",
    "SYS035": "a rewiring without links, bytes or time",
    "SYS036": "a network whose paths are too many to be followed",
    "SYS040": "an air limit of racks that air does not cool, or beside another",
    "SYS041": "the paths of a network of one device",
    "SYS020": "an unknown topology",
    "SYS021": "a topology spec that cannot be read",
    "SYS022": "ports of a chip that do not suffice",
    "SYS023": "counts of a network out of range",
    "SYS024": "paths that are not there, or too many to search",
    "SYS025": "counts of a network that do not share out, or a wiring that is not built",
    "SYS026": "a shape that is no slice of a pod",
    "SYS027": "a topology of another number of devices than its system",
    "SYS028": "a route through host memory that is not there",
    "SYS029": "a load that a network cannot carry",
}
"""One meaning a code. A new code is listed here; a code whose meaning changes is a new code."""

CLASSES = {name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, UserError)}


def raised() -> dict[str, set[str]]:
    """Every code that stands in the source, and the rooms where it does."""
    root = Path(str(files("meshwright")))
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for code in codes_of(node):
                found[code].add(path.relative_to(root).parts[0])
    return dict(found)


def codes_of(node: ast.AST) -> list[str]:
    """`LayoutError(3, ...)`, `Registry(error=ModelError, number=2)` and `Rule(code="LAY003")`."""
    if not isinstance(node, ast.Call):
        return []
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    keywords = {item.arg: item.value for item in node.keywords}
    if called in CLASSES and node.args and isinstance(node.args[0], ast.Constant):
        return [f"{CLASSES[called].prefix}{node.args[0].value:03d}"]
    if called == "Registry":
        return [f"{CLASSES[ast.unparse(keywords['error'])].prefix}{ast.literal_eval(keywords['number']):03d}"]
    code = keywords.get("code")
    return [code.value] if isinstance(code, ast.Constant) and isinstance(code.value, str) else []


def test_every_code_in_the_source_is_listed_with_its_one_meaning():
    assert sorted(set(raised()) - set(MEANING)) == []


def test_every_listed_code_is_in_the_source_and_meanings_differ():
    assert sorted(set(MEANING) - set(raised())) == []
    assert len(set(MEANING.values())) == len(MEANING)


def test_a_code_is_raised_in_one_room_unless_two_rooms_refuse_the_same_thing():
    shared = {code for code, rooms in raised().items() if len(rooms) > 1}
    assert shared == {"COL002", "JOB001", "MOD010"}, (
        "sizes, experts and groups are checked by nouns and programs, and by scenarios without them"
    )


def test_every_branch_has_a_prefix_of_its_own_and_stands_in_the_drawn_tree():
    branches = [cls for cls in CLASSES.values() if cls is not UserError]
    prefixes = [cls.prefix for cls in branches]
    assert sorted(prefixes) == sorted(set(prefixes))
    drawn = errors.__doc__ or ""
    for cls in branches:
        assert cls.__name__ in drawn
        assert f" {cls.prefix} " in drawn
        assert cls.exit_code == 2


def test_a_user_error_is_two_lines():
    error = LayoutError(3, "tp=12 does not divide 64 attention heads", "--layout tp=8")
    assert error.message == "error[LAY003]: tp=12 does not divide 64 attention heads\nfix: --layout tp=8"
    assert str(error) == "error[LAY003]: tp=12 does not divide 64 attention heads"
    assert LayoutError(3, "no").message == "error[LAY003]: no"


def test_our_bug_exits_101():
    assert InternalError("x").exit_code == MeshwrightError.exit_code == 101
    assert InternalError("x").code == "BUG"


@pytest.mark.parametrize(
    ("name", "known", "fix"),
    [
        ("hgx-h10", ["hgx-h100", "hgx-h200"], "did you mean hgx-h100, hgx-h200?"),
        ("HGX-H100", ["hgx-h100"], "did you mean hgx-h100?"),
        ("zzzzzz", ["ring", "tree"], "known: ring, tree"),
        ("x", [], "none is known here"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_or_all(name, known, fix):
    assert suggest(name, known) == fix


def test_nearest_keeps_the_spelling_and_the_count():
    assert nearest("qwen3", ["Qwen3", "Qwen2", "Llama"], count=1) == ["Qwen3"]
