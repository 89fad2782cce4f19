from meshwright.model.reader import read_config, read_model
from meshwright.scenarios.inspect import (
    InspectOptions,
    active_parameters,
    cached_bytes,
    inspect,
    prefill_flops,
    token_work,
)

QWEN3_8B = read_model("Qwen/Qwen3-8B")


def test_flops_per_token_is_two_per_weight_read_and_four_per_head_column_and_position():
    work = token_work(QWEN3_8B, 1, 999)
    layers, hidden, heads, kv, width, vocab = 36, 4096, 32 * 128, 8 * 128, 12288, 151936
    weights = layers * (2 * hidden * heads + 2 * hidden * kv + 3 * hidden * width) + hidden * vocab
    assert work.weight_flops == 2 * weights
    assert work.attention_flops == layers * 4 * heads * 1000
    assert work.weight_bytes == 2 * weights
    assert work.state_bytes == layers * 2 * kv * 2 * 1000


def test_a_batch_reads_weights_once_and_state_per_session():
    one, many = token_work(QWEN3_8B, 1, 500), token_work(QWEN3_8B, 64, 500)
    assert many.weight_bytes == one.weight_bytes
    assert many.state_bytes == 64 * one.state_bytes
    assert many.flops == one.flops


def test_a_mixture_reads_more_experts_as_the_batch_grows_but_never_more_than_it_has():
    model = read_model("Qwen/Qwen3-30B-A3B")
    read = [token_work(model, batch, 0).weight_bytes for batch in (1, 8, 64, 4096)]
    assert read == sorted(read)
    whole = inspect(model, InspectOptions()).body["parameter_bytes"]
    assert read[-1] <= whole["total"] - whole["embedding"] - whole["norms"]
    assert read[0] < whole["total"] / 8


def test_active_parameters_leave_out_the_experts_not_visited():
    model = read_model("Qwen/Qwen3-30B-A3B")
    parameters = inspect(model, InspectOptions()).body["parameters"]
    idle = parameters["experts"] // 128 * 120
    assert active_parameters(model) == parameters["total"] - idle
    assert active_parameters(QWEN3_8B) == inspect(QWEN3_8B, InspectOptions()).body["parameters"]["total"]


def test_a_window_bounds_the_cache_and_the_attention_of_its_layers():
    config = {"model_type": "mistral", "sliding_window": 4096, "torch_dtype": "bfloat16"}
    model = read_config(config, "windowed")
    assert cached_bytes(model, 100_000) == cached_bytes(model, 4096)
    assert token_work(model, 1, 100_000).attention_flops == token_work(model, 1, 4095).attention_flops
    assert inspect(model, InspectOptions()).body["kv_bytes_per_token_by_kind"] == {
        "sliding_attention": 32 * 2 * 8 * 128 * 2
    }


def test_a_prompt_scores_causal_pairs_once_and_runs_the_head_on_its_last_token():
    tokens = 1000
    head = 4096 * 151936
    work = token_work(QWEN3_8B, 1, 0)
    matrices = (work.weight_flops - 2 * head) * tokens + 2 * head
    pairs = tokens * (tokens + 1) // 2
    assert prefill_flops(QWEN3_8B, tokens) == matrices + 36 * 4 * 32 * 128 * pairs


def test_the_body_names_what_stands_apart():
    assert inspect(QWEN3_8B, InspectOptions()).body["apart"] == {"vision": 0, "mtp": 0, "buffers": 0}
    nested = {"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {"hidden_size": 8}}
    apart = inspect(read_config(nested, "wrapped"), InspectOptions()).body["apart"]
    assert apart["vision"]["parameters"] is None
