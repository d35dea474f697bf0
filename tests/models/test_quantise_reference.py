"""Codes and values of quantised vectors are those of sentence-transformers, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from embed_ab.quantise import Ranges, signs, top_k

pytestmark = pytest.mark.model


def random_unit(n: int, dimension: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.mark.parametrize("dimension", [64, 100, 384])  # 100 bits leave a byte part empty
def test_codes_and_values_are_those_of_sentence_transformers(dimension: int) -> None:
    from sentence_transformers.util import quantization

    documents, queries = random_unit(3000, dimension, 0), random_unit(200, dimension, 1)
    limits = np.vstack((documents.min(axis=0), documents.max(axis=0)))
    ranges = Ranges.of(documents)

    for vectors in (documents, queries):
        codes = quantization.quantize_embeddings(vectors, "int8", ranges=limits)
        np.testing.assert_array_equal(ranges.codes(vectors), codes)
        values = quantization._dequantize_embeddings(codes.astype(int), "int8", limits)
        np.testing.assert_array_equal(ranges.values(codes), values)
        bits = quantization.quantize_embeddings(vectors, "ubinary")
        np.testing.assert_array_equal(signs(vectors), bits)


@pytest.mark.parametrize("precision", ["int8", "ubinary"])
def test_rescored_values_are_those_of_its_einsum(precision: str) -> None:
    from sentence_transformers.util import quantization

    documents, queries = random_unit(400, 100, 2), random_unit(20, 100, 3)
    limits = np.vstack((documents.min(axis=0), documents.max(axis=0)))
    codes = quantization.quantize_embeddings(documents, precision, ranges=limits)
    if precision == "int8":
        values = quantization._dequantize_embeddings(codes.astype(int), "int8", limits)
    else:
        values = np.unpackbits(codes, axis=-1)[:, :100].astype(int)

    found, scores = top_k(queries, documents, 100, precision, n_rescored=400)

    expected = np.einsum("ij,kj->ik", queries, values).astype(np.float64)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, found, axis=1), atol=1e-6)
    np.testing.assert_array_equal(found[:, :5], np.argsort(-expected)[:, :5])
