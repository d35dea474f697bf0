"""Compare two embedding models on your own documents and questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from embed_ab.errors import InputError

if TYPE_CHECKING:
    from embed_ab.evalset import Evalset
    from embed_ab.result import Comparison

__version__ = "0.1.0"
__all__ = ["__version__", "compare"]


def compare(
    evalset: Evalset | str | Path, model_a: str, model_b: str, **settings: Any
) -> Comparison:
    """Return the comparison of B with A, which shows itself as HTML in a notebook.

    evalset: a folder, or an `Evalset` made with `embed_ab.evalset.from_records`.
    settings: any setting but those about files, by its Python name: k=5, gate=["ndcg@10:0.02"].
    Nothing is written but vectors to the store; cache=False writes none.
    Raises: InputError, ProviderError.
    """
    from embed_ab import commands
    from embed_ab.settings import resolve, writes_files

    for name in settings:
        if writes_files(name):
            raise InputError(
                f"{name} is for the command line", hint="The comparison is returned, not written."
            )
    flags = {name.replace("_", "-"): value for name, value in settings.items()}
    flags |= {"model-a": model_a, "model-b": model_b}
    if isinstance(evalset, str | Path):
        resolved = resolve(flags | {"eval-path": str(evalset)}, config=None)
        evalset = commands.load_evalset(resolved)
    else:
        for name in ("split", "no_positive", "allow_missing_docs"):
            if name in settings:
                raise InputError(
                    f"{name} is about reading a folder, and this set is in memory",
                    hint="Give it to embed_ab.evalset.from_records or load.",
                )
        resolved = resolve(flags, config=None)
    return commands.compare_evalset(evalset, resolved)[0]
