"""Cross-encoders: the real class and a real tokenizer with small random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embed_ab import evalset
from embed_ab.cli import main
from embed_ab.commands import demo_folder
from embed_ab.errors import InputError, ProviderError
from embed_ab.providers.cross_encoder import CrossEncoderReranker
from embed_ab.rerankers import by_model
from embed_ab.runs import Run

pytestmark = pytest.mark.model

QUERY = "When does the pump stop?"
DOCUMENTS = [
    "The pump stops when the tank is full.",
    "Invoices are due in May.",
    "valve",
    "The tank holds water. " * 30,
]


def make_cross_encoder(folder: Path, tokenizer: Path, **config: Any) -> Path:
    """A BERT of two layers that scores pairs, with random weights from a seed."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = {"intermediate_size": 64, "max_position_embeddings": 128, "num_labels": 1}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=30522, initializer_range=0.5, **{**sizes, **settings, **config})
    )
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (tokenizer / name).exists():
            shutil.copyfile(tokenizer / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def encoder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("models") / "encoder", minilm)


def test_scores_are_the_logits_of_the_model_itself(encoder: Path) -> None:
    """Computed once more with transformers alone, pair by pair, without any padding."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(str(encoder))
    model = BertForSequenceClassification.from_pretrained(str(encoder)).eval()
    expected = []
    for document in DOCUMENTS:
        pair = tokenizer(QUERY, document, truncation=True, max_length=128, return_tensors="pt")
        with torch.no_grad():
            expected.append(model(**pair).logits.item())

    scored = CrossEncoderReranker(str(encoder), batch_size=2).score(QUERY, DOCUMENTS)

    assert scored.scores == pytest.approx(expected, abs=1e-4)
    assert scored.scores.dtype == np.float64
    assert len(set(scored.scores.tolist())) == 4


def test_pairs_longer_than_the_limit_are_counted(encoder: Path) -> None:
    """The fourth document has more than the model's 128 tokens; in 12, "valve" alone has room."""
    assert CrossEncoderReranker(str(encoder)).score(QUERY, DOCUMENTS).n_cut == 1
    assert CrossEncoderReranker(str(encoder), max_length=12).score(QUERY, DOCUMENTS).n_cut == 3


def test_the_seconds_are_those_of_scoring_without_those_of_counting(encoder: Path) -> None:
    """On this clock the network takes 5 s for its one batch, and counting 100."""
    now = [0.0]

    class Counting(CrossEncoderReranker):
        def _count_cut(self, query: str, documents: Sequence[str]) -> int | None:
            now[0] += 100
            return super()._count_cut(query, documents)

    def forward(*_: object) -> None:
        now[0] += 5

    reranker = Counting(str(encoder), clock=lambda: now[0])
    reranker._model[0].register_forward_hook(forward)

    scored = reranker.score(QUERY, DOCUMENTS)

    assert (scored.seconds, scored.n_cut) == (5.0, 1)


def test_a_limit_changes_what_is_read(encoder: Path) -> None:
    long = CrossEncoderReranker(str(encoder)).score(QUERY, DOCUMENTS).scores
    short = CrossEncoderReranker(str(encoder), max_length=16).score(QUERY, DOCUMENTS).scores

    assert short[2] == pytest.approx(long[2], abs=1e-5)  # "valve" fits both
    assert abs(short[3] - long[3]) > 1e-3


@pytest.mark.parametrize(
    ("max_length", "said"), [(129, "is more than the 128 positions"), (3, "leaves no token")]
)
def test_a_limit_that_cannot_be_is_refused(encoder: Path, max_length: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        CrossEncoderReranker(str(encoder), max_length=max_length).facts()


def test_facts(encoder: Path) -> None:
    facts = CrossEncoderReranker(str(encoder), dtype="float32", device="cpu").facts()

    assert (facts.max_length, facts.revision) == (128, "")
    assert (facts.details["dtype"], facts.details["device"]) == ("float32", "cpu")


def test_candidates_are_ordered_by_a_real_model(encoder: Path) -> None:
    """d0 and d4 have one text: it is scored once, and they tie by document id."""
    texts = [*DOCUMENTS, DOCUMENTS[0]]
    loaded = evalset.from_records(
        {f"d{n}": text for n, text in enumerate(texts)}, {"q": QUERY}, {"q": {"d0": 1}}
    )
    documents = np.array([[4, 3, 2, 1, 0]], dtype=np.int32)
    candidates = Run(name="first", documents=documents, scores=np.zeros((1, 5)))
    reranker = CrossEncoderReranker(str(encoder))
    scores = reranker.score(QUERY, DOCUMENTS).scores

    found = by_model("ce", reranker, loaded, candidates, lambda *_: None)

    order = sorted(range(5), key=lambda d: (-scores[d % 4], d))
    assert found.run.documents.tolist() == [order]
    assert found.origin.cut_pairs == (1, 4)
    assert len(found.seconds) == 1


def test_a_model_without_a_head_is_refused(minilm: Path) -> None:
    """The library would give it a head of random weights."""
    with pytest.raises(ProviderError, match="has no part that scores a query with a document"):
        CrossEncoderReranker(str(minilm)).facts()


def test_a_model_with_several_classes_is_refused(minilm: Path, tmp_path: Path) -> None:
    folder = make_cross_encoder(tmp_path / "three", minilm, num_labels=3)

    with pytest.raises(ProviderError, match="sorts pairs into 3 classes"):
        CrossEncoderReranker(str(folder)).facts()


def test_pickled_weights_are_refused_unless_allowed(encoder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / "pickled"
    shutil.copytree(encoder, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()

    with pytest.raises(ProviderError, match=r"only as a pickle file \(pytorch_model.bin\)"):
        CrossEncoderReranker(str(folder)).facts()
    assert CrossEncoderReranker(str(folder), allow_pickle=True).facts().max_length == 128


def test_code_of_a_model_is_refused(encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "coded"
    shutil.copytree(encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('the code ran')")

    with pytest.raises(ProviderError, match="wants to run code of its own"):
        CrossEncoderReranker(str(folder)).facts()


def test_a_folder_that_is_not_there_and_a_model_nobody_has(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        CrossEncoderReranker(str(tmp_path / "nothing"))
    with pytest.raises(ProviderError, match="is not in the local hub cache"):
        CrossEncoderReranker("owner/nothing", offline=True).facts()


def test_half_precision_still_scores(encoder: Path) -> None:
    full, half = (
        CrossEncoderReranker(str(encoder), dtype=dtype).score(QUERY, DOCUMENTS).scores
        for dtype in ("float32", "bfloat16")
    )

    assert half == pytest.approx(full, rel=0.1, abs=0.2)
    assert half.tolist() != full.tolist()


@pytest.mark.parametrize(
    ("config", "options", "code", "said"),
    [
        ({"num_labels": 3}, "", 3, "sorts pairs into 3 classes"),
        ({}, ",max_length=999", 2, "is more than the 128 positions"),
    ],
)
def test_a_model_that_cannot_rank_is_said_before_anything_is_embedded(
    minilm: Path,
    tmp_path: Path,
    config: dict[str, Any],
    options: str,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = make_cross_encoder(tmp_path / "encoder", minilm, **config)
    words = ["--first-stage", f"st:{minilm}", "-b", f"ce:{folder}{options}"]

    assert main(["rerank", str(demo_folder("en")), *words, "--out", str(tmp_path / "out")]) == code

    printed = capsys.readouterr().err
    assert said in printed
    assert "documents" not in printed  # no progress of the first stage


def test_a_real_first_stage_and_a_real_class_through_the_command_line(
    minilm: Path, encoder: Path, tmp_path: Path
) -> None:
    """Random weights make a bad reranker; what it may not do is add or lose a document."""
    words = ["--first-stage", f"st:{minilm}", "--depth", "20", "-b", f"ce:{encoder}"]
    runs, out = tmp_path / "runs", tmp_path / "out"
    places = ["--runs", str(runs), "--out", str(out)]

    assert main(["rerank", str(demo_folder("en")), *words, *places]) == 0

    found = json.loads((out / "result.json").read_text("utf-8"))
    pairs = [
        {tuple(line.split()[::2][:2]) for line in (runs / name).read_text().splitlines()}
        for name in ("a.trec", "b.trec")
    ]
    assert len(pairs[0]) == 20 * found["evalset"]["n_queries"]
    assert pairs[0] == pairs[1]
    assert found["candidates"]["same_for_a"]
    of_b = found["systems"][1]["details"]
    assert f"ce:{encoder}" in of_b["system 2"]
    assert "pairs cut off at 128 tokens" in of_b["system 2"]
    assert found["measured"]["rerank_ms"]["B"]["n"] == 40
    ndcg = found["candidates"]["ceilings"][0]
    assert ndcg["ceiling"] >= found["systems"][0]["means"]["ndcg@10"]
