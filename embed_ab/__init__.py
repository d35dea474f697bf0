"""Compare two embedding models on your own documents and questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embed_ab.comparison import Comparison
    from embed_ab.evalset import Evalset

__version__ = "0.1.0"
__all__ = ["__version__", "compare"]


def compare(
    evalset: Evalset | str | Path, model_a: str, model_b: str, **settings: Any
) -> Comparison:
    """Return the comparison of B with A, which shows itself as HTML in a notebook.

    evalset: a folder, or an `Evalset` made with `embed_ab.evalset.from_records`.
    settings: any setting by its Python name, such as k=5 or gate=["ndcg@10:0.02"].
    Raises: InputError, ProviderError.
    """
    from embed_ab import commands
    from embed_ab import evalset as evalsets
    from embed_ab.settings import resolve

    flags = {name.replace("_", "-"): value for name, value in settings.items()}
    resolved = resolve(flags | {"model-a": model_a, "model-b": model_b}, config=None)
    if isinstance(evalset, str | Path):
        resolved = resolved.model_copy(update={"eval_path": str(evalset)})
        evalset = evalsets.load(
            Path(evalset),
            split=resolved.split,
            no_positive=resolved.no_positive,
            allow_missing_docs=resolved.allow_missing_docs,
        )
    return commands.compare_evalset(evalset, resolved)[0]
