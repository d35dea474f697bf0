"""Models of sentence-transformers, with real weights."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.base import Vectors
from embed_ab.providers.cache import VectorStore
from embed_ab.providers.embed import embed_cached
from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder

pytestmark = pytest.mark.model

LONG = "The pump stops when the tank is full. " * 100
TEXTS = ("The pump stops when the tank is full.", "Invoices are due in May.", LONG, "valve")


def document_vectors(folder: Path, texts: Sequence[str] = TEXTS) -> Vectors:
    return SentenceTransformerEmbedder(str(folder)).embed(texts, "document").vectors


@pytest.fixture
def copied(minilm: Path, tmp_path: Path) -> Path:
    """A copy of minilm to spoil; the weights are linked, not copied."""
    folder = tmp_path / "copied"
    shutil.copytree(
        minilm,
        folder,
        ignore=shutil.ignore_patterns("__pycache__"),
        copy_function=lambda source, target: Path(target).symlink_to(source),
    )
    return folder


def rewrite(path: Path, text: str) -> None:
    """Replace a file of `copied`, not the original behind the link."""
    path.unlink(missing_ok=True)
    path.write_text(text)


# --- what is known without loading ---


def test_twins_have_one_fingerprint_and_equal_vectors(minilm: Path, twin: Path) -> None:
    """A/A: the same bytes under another name give the same vectors, bit by bit."""
    one, other = (SentenceTransformerEmbedder(str(folder)) for folder in (minilm, twin))

    assert one.fingerprint == other.fingerprint
    assert np.array_equal(document_vectors(minilm), document_vectors(twin))


def test_a_fine_tune_has_another_fingerprint(minilm: Path, sre: Path) -> None:
    one, other = (SentenceTransformerEmbedder(str(folder)) for folder in (minilm, sre))

    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("option", [{"max_length": 64}, {"dtype": "bfloat16"}])
def test_options_that_change_vectors_change_the_fingerprint(
    minilm: Path, option: dict[str, object]
) -> None:
    plain = SentenceTransformerEmbedder(str(minilm))
    changed = SentenceTransformerEmbedder(str(minilm), **option)  # type: ignore[arg-type]

    assert plain.fingerprint != changed.fingerprint


def test_prompts_are_no_part_of_the_fingerprint(minilm: Path) -> None:
    prompted = SentenceTransformerEmbedder(str(minilm), query_prompt="query: ")

    assert prompted.fingerprint == SentenceTransformerEmbedder(str(minilm)).fingerprint


@pytest.mark.parametrize(
    ("file", "is_read"),
    [("README.md", False), (".hidden", False), ("1_Pooling/config.json", True), ("new.json", True)],
)
def test_only_files_that_a_loader_reads_change_the_fingerprint(
    copied: Path, file: str, is_read: bool
) -> None:
    before = SentenceTransformerEmbedder(str(copied)).fingerprint
    rewrite(copied / file, '{"changed": true}')

    assert (SentenceTransformerEmbedder(str(copied)).fingerprint != before) is is_read


def test_a_warm_run_imports_neither_torch_nor_transformers(minilm: Path, tmp_path: Path) -> None:
    store = VectorStore.open(tmp_path)
    embedder = SentenceTransformerEmbedder(str(minilm))
    cold = embed_cached(embedder, store, TEXTS, "abcd", "document")
    store.close()
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from embed_ab.providers.cache import VectorStore\n"
        "from embed_ab.providers.embed import embed_cached\n"
        "from embed_ab.providers.sentence_transformer import SentenceTransformerEmbedder\n"
        f"texts = {TEXTS!r}\n"
        "store = VectorStore.open(Path(sys.argv[2]))\n"
        "warm = embed_cached(\n"
        "    SentenceTransformerEmbedder(sys.argv[1]), store, texts, 'abcd', 'document')\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub'}\n"
        "print(warm.n_cached, warm.vectors.tobytes().hex(), sorted(heavy & set(sys.modules)))\n"
    )
    root = str(Path(__file__).parents[2])
    printed = subprocess.run(
        [sys.executable, "-c", script, str(minilm), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": root, "HF_HUB_OFFLINE": "1"},
    ).stdout

    assert printed == f"4 {cold.vectors.tobytes().hex()} []\n"


# --- prompts ---


def test_the_models_own_prompts_are_used(e5q4: Path) -> None:
    """The vector of a text equals that of the text with the prompt written before it."""
    own = SentenceTransformerEmbedder(str(e5q4))
    bare = SentenceTransformerEmbedder(str(e5q4), query_prompt="", document_prompt="")
    facts = own.facts()

    assert (facts.query_prompt, facts.document_prompt) == ("query: ", "passage: ")
    for role, prompt in (("query", "query: "), ("document", "passage: ")):
        with_own = own.embed(["물탱크가 차면"], role).vectors  # type: ignore[arg-type]
        by_hand = bare.embed([f"{prompt}물탱크가 차면"], role).vectors  # type: ignore[arg-type]
        assert np.array_equal(with_own, by_hand)


def test_given_prompts_beat_the_models_own_and_an_empty_one_switches_it_off(e5q4: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(e5q4), query_prompt="Q: ", document_prompt="")
    facts = embedder.facts()
    bare = SentenceTransformerEmbedder(str(e5q4), query_prompt="", document_prompt="")

    assert (facts.query_prompt, facts.document_prompt) == ("Q: ", "")
    assert np.array_equal(
        embedder.embed(["tank"], "query").vectors, bare.embed(["Q: tank"], "query").vectors
    )


def test_a_default_prompt_is_not_used_where_encode_query_would_not(copied: Path) -> None:
    """sentence-transformers gives every model an empty "query" prompt, which beats the default."""
    settings = {"prompts": {"retrieval": "find: "}, "default_prompt_name": "retrieval"}
    rewrite(copied / "config_sentence_transformers.json", json.dumps(settings))
    embedder = SentenceTransformerEmbedder(str(copied))
    facts = embedder.facts()
    theirs = embedder._model.encode_query(["tank"], show_progress_bar=False)

    assert facts.query_prompt == ""
    assert np.array_equal(embedder.embed(["tank"], "query").vectors, theirs)


# --- lengths ---


def test_tokens_are_counted_before_truncation_with_prompt_and_special_tokens(e5q4: Path) -> None:
    """By hand with the tokenizer alone: <s>, the prompt, the text, </s>."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(e5q4 / "tokenizer.json"))
    tokenizer.no_truncation()
    embedder = SentenceTransformerEmbedder(str(e5q4))
    counted = embedder.embed(["tank", LONG], "document").n_tokens
    by_hand = [len(tokenizer.encode(f"passage: {text}").ids) for text in ("tank", LONG)]

    assert counted is not None
    assert counted.tolist() == by_hand
    assert by_hand[1] > 512


def test_text_beyond_the_limit_changes_nothing(minilm: Path) -> None:
    """100 sentences are about 900 tokens, the limit is 256: more of the same is cut."""
    one, more = document_vectors(minilm, [LONG, LONG + "Invoices are due in May."])

    assert np.abs(one - more).max() < 1e-6


def test_max_length_is_kept_and_cuts_sooner(minilm: Path) -> None:
    """ "tank" ten times with [CLS] and [SEP] is 12 tokens: 7 leave five of the ten."""
    embedder = SentenceTransformerEmbedder(str(minilm), max_length=7)
    found = embedder.embed(["tank " * 10, "tank " * 5], "document")

    assert embedder.facts().max_length == 7
    assert found.n_tokens is not None
    assert found.n_tokens.tolist() == [12, 7]
    assert np.abs(found.vectors[0] - found.vectors[1]).max() < 1e-6


def test_a_max_length_above_the_models_positions_is_an_input_error(minilm: Path) -> None:
    with pytest.raises(InputError, match="513 is more than the 512 positions"):
        SentenceTransformerEmbedder(str(minilm), max_length=513).facts()


# --- vectors ---


def test_facts_describe_the_model(l3: Path) -> None:
    facts = SentenceTransformerEmbedder(str(l3)).facts()

    assert (facts.dimension, facts.max_length, facts.revision) == (384, 128, "")
    assert facts.details["dtype"] == "float32"
    assert facts.details["modules"] == "Transformer, Pooling (mean)"


def test_vectors_equal_those_of_plain_encode_in_the_order_of_the_texts(minilm: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(minilm), batch_size=2)
    theirs = embedder._model.encode(list(TEXTS), show_progress_bar=False)
    found = embedder.embed(TEXTS, "document").vectors

    assert found.dtype == np.float32
    assert np.abs(found - theirs).max() < 1e-6


def test_bfloat16_weights_give_float32_vectors_near_the_plain_ones(minilm: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(minilm), dtype="bfloat16")
    found = embedder.embed(TEXTS[:2], "document").vectors
    cosines = np.sum(found * document_vectors(minilm, TEXTS[:2]), axis=1)

    assert embedder.facts().details["dtype"] == "bfloat16"
    assert found.dtype == np.float32
    assert 0.99 < cosines.min() / np.linalg.norm(found, axis=1).max() < 1.01
    assert not np.array_equal(found, document_vectors(minilm, TEXTS[:2]))


def test_a_static_float16_model_has_no_limit_and_no_token_counts(static_model: Path) -> None:
    """(3, 4) has length 5; (3, 4) and (1, 0) have the mean (2, 2)."""
    embedder = SentenceTransformerEmbedder(str(static_model))
    facts = embedder.facts()
    found = embedder.embed(["pump", "pump tank"], "document")

    assert (facts.dimension, facts.max_length, facts.details["dtype"]) == (2, None, "float16")
    assert found.n_tokens is None
    assert found.vectors.dtype == np.float32
    assert found.vectors == pytest.approx(np.array([[0.6, 0.8], [0.5**0.5, 0.5**0.5]]), abs=1e-3)


def test_a_text_the_model_has_no_word_for_is_named(static_model: Path) -> None:
    embedder = SentenceTransformerEmbedder(str(static_model))
    store = VectorStore.open(None)
    with pytest.raises(ProviderError, match="'d2'"):
        embed_cached(embedder, store, ["pump", "valve"], ["d1", "d2"], "document")
    store.close()


def test_a_vector_that_fails_in_float16_is_made_again_in_float32(static_model: Path) -> None:
    """(60000, 60000) has a length above 65504, float16's largest: half precision gives (0, 0)."""
    embedder = SentenceTransformerEmbedder(str(static_model))
    theirs = embedder._model.encode(["huge"], show_progress_bar=False)
    found = embedder.embed(["pump", "huge"], "document").vectors

    assert not theirs.any()
    assert found[1] == pytest.approx([0.5**0.5, 0.5**0.5], abs=1e-6)


def test_what_the_library_says_of_a_text_stands_apart_from_our_message(
    minilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redacted comparison shows the message without it."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("cannot read a secret")

    embedder = SentenceTransformerEmbedder(str(minilm))
    monkeypatch.setattr(embedder._model, "encode", fail)
    with pytest.raises(ProviderError, match=r" \(ValueError\): cannot read a secret") as caught:
        embedder.embed(["a secret"], "query")

    assert caught.value.unquoted == f"model '{minilm}' could not embed 1 text (ValueError)"


def test_max_length_of_a_static_model_is_an_input_error(static_model: Path) -> None:
    with pytest.raises(InputError, match="no length limit"):
        SentenceTransformerEmbedder(str(static_model), max_length=7).facts()


def test_a_folder_needs_no_network_and_writes_nothing_to_the_terminal(
    l3: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    store = VectorStore.open(None)
    embed_cached(SentenceTransformerEmbedder(str(l3)), store, TEXTS, "abcd", "document")
    store.close()

    assert capfd.readouterr() == ("", "")


# --- what is refused ---


def test_a_module_with_code_of_its_own_is_refused_and_not_imported(copied: Path) -> None:
    modules = json.loads((copied / "modules.json").read_text())
    modules[1]["type"] = "custom.Pooling"
    rewrite(copied / "modules.json", json.dumps(modules))
    (copied / "custom.py").write_text("raise SystemExit('the code ran')")
    with pytest.raises(ProviderError, match=r"custom\.Pooling") as caught:
        SentenceTransformerEmbedder(str(copied)).facts()

    assert "--a-trust-remote-code or --b-trust-remote-code" in caught.value.hint


def test_code_of_its_own_inside_a_router_is_refused(copied: Path) -> None:
    modules = json.loads((copied / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.Router"
    rewrite(copied / "modules.json", json.dumps(modules))
    routes = {"types": {"query_0": "custom.Pooling"}, "structure": {}, "parameters": {}}
    rewrite(copied / "1_Pooling" / "router_config.json", json.dumps(routes))
    with pytest.raises(ProviderError, match=r"custom\.Pooling"):
        SentenceTransformerEmbedder(str(copied)).facts()


def test_a_configuration_that_needs_code_of_its_own_is_refused(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config.update(model_type="unheard-of", auto_map={"AutoConfig": "custom.Config"})
    rewrite(copied / "config.json", json.dumps(config))
    (copied / "custom.py").write_text("raise SystemExit('the code ran')")
    with pytest.raises(ProviderError, match="code of its own") as caught:
        SentenceTransformerEmbedder(str(copied)).facts()

    assert "--a-trust-remote-code" in caught.value.hint


@pytest.mark.parametrize("place", ["pytorch_model.bin", "1_Pooling/pytorch_model.bin"])
def test_weights_that_are_only_a_pickle_are_refused(copied: Path, place: str) -> None:
    (copied / "model.safetensors").unlink()
    (copied / place).write_bytes(b"a pickle")
    with pytest.raises(ProviderError, match="pickle file") as caught:
        SentenceTransformerEmbedder(str(copied)).facts()

    assert "--a-allow-pickle or --b-allow-pickle" in caught.value.hint


def test_a_pickle_beside_safetensors_is_not_read(copied: Path) -> None:
    (copied / "pytorch_model.bin").write_bytes(b"not even a pickle")

    assert SentenceTransformerEmbedder(str(copied)).facts().dimension == 384


def test_an_allowed_pickle_gives_the_same_vectors(copied: Path, minilm: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(minilm / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    embedder = SentenceTransformerEmbedder(str(copied), allow_pickle=True)

    assert np.array_equal(
        embedder.embed(["tank"], "document").vectors, document_vectors(minilm, ["tank"])
    )


def test_a_folder_without_weights_is_a_provider_error(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    with pytest.raises(ProviderError, match="could not be loaded"):
        SentenceTransformerEmbedder(str(copied)).facts()


@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/where", "~/nowhere-at-all", "~no-such-user", "a/b/c", "", "a\\b"]
)
def test_a_path_that_does_not_exist_is_an_input_error(name: str) -> None:
    with pytest.raises(InputError, match="no such folder"):
        SentenceTransformerEmbedder(name)


def test_a_revision_of_a_folder_is_an_input_error(minilm: Path) -> None:
    with pytest.raises(InputError, match="folder has no revision"):
        SentenceTransformerEmbedder(str(minilm), revision="main")


def test_an_unknown_dtype_is_an_input_error(minilm: Path) -> None:
    with pytest.raises(InputError, match="dtype=int4"):
        SentenceTransformerEmbedder(str(minilm), dtype="int4")


# --- hub names ---


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty local hub cache of the test's own."""
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached_in_hub(hub_cache: Path, folder: Path, name: str, commit: str) -> None:
    """Lay a model out as the hub's client does after a download."""
    place = hub_cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    (place / "snapshots" / commit).symlink_to(folder)


def test_the_revision_of_a_hub_name_comes_from_the_local_hub_cache(
    hub_cache: Path, minilm: Path
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached_in_hub(hub_cache, minilm, "owner/model", commit)
    embedder = SentenceTransformerEmbedder("owner/model", offline=True)

    assert f"hub=owner/model@{commit}" in embedder.fingerprint
    assert embedder.facts().revision == commit
    assert np.array_equal(
        embedder.embed(["tank"], "document").vectors, document_vectors(minilm, ["tank"])
    )


def test_a_bare_name_is_completed_as_the_library_does(hub_cache: Path, minilm: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached_in_hub(hub_cache, minilm, "sentence-transformers/all-MiniLM-L6-v2", commit)

    assert commit in SentenceTransformerEmbedder("all-MiniLM-L6-v2", offline=True).fingerprint


def test_a_hub_name_that_is_not_cached_is_a_provider_error_offline(hub_cache: Path) -> None:
    with pytest.raises(ProviderError, match="not in the local hub cache") as caught:
        _ = SentenceTransformerEmbedder("owner/model", offline=True).fingerprint

    assert caught.value.hint == "Run once with the network, or give a local folder."


@pytest.mark.parametrize("max_length", [1, 2])
def test_a_limit_that_leaves_no_token_of_a_text_is_an_input_error(
    minilm: Path, max_length: int
) -> None:
    """The tokenizer adds [CLS] and [SEP]."""
    embedder = SentenceTransformerEmbedder(str(minilm), max_length=max_length)

    with pytest.raises(InputError, match="adds 2 of its own"):
        embedder.facts()
