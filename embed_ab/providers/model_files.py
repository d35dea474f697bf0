"""The files of a model: what tells two models apart, and what could run code when loaded."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from embed_ab.errors import ProviderError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
NOT_FOR_TORCH = (
    "onnx/*",
    "openvino/*",
    "coreml/*",
    "*.onnx",
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.gguf",
)
# Files of a training run that no loader reads.
_LEFTOVERS = ("training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")
REMOTE_CODE_HINT = (
    "If you have read that code and trust it, allow it with --a-trust-remote-code or "
    "--b-trust-remote-code."
)
PICKLE_HINT = (
    "Pickle files can run code when they are loaded. Use a revision with safetensors, or, if you "
    "trust the file, allow it with --a-allow-pickle or --b-allow-pickle."
)


def hub_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder where the hub's client and sentence-transformers keep downloaded models.

    Told without the client, which reads its settings once, when it is imported.
    """
    home = environ.get("HF_HOME") or os.path.join(
        environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    folder = (
        environ.get("SENTENCE_TRANSFORMERS_HOME")
        or environ.get("HF_HUB_CACHE")
        or environ.get("HUGGINGFACE_HUB_CACHE")
        or os.path.join(home, "hub")
    )
    return Path(os.path.expandvars(os.path.expanduser(folder)))


def hub_place(name: str) -> str:
    """Return the name of a hub model's own folder inside that folder."""
    return f"models--{name.replace('/', '--')}"


def is_commit(revision: str) -> bool:
    """Return whether a revision is a commit, which never means something else later."""
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def not_fetched(*, remote_code: bool, pickle: bool) -> tuple[str, ...]:
    """Return the patterns of files that are not downloaded: for other runtimes, or not allowed."""
    return (*NOT_FOR_TORCH, *(() if pickle else PICKLES), *(() if remote_code else ("*.py",)))


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Type and subfolder of each module; a folder without modules.json is one transformer."""
    path = folder / "modules.json"
    if not path.is_file():
        return [("sentence_transformers.models.Transformer", "")]
    try:
        modules = [
            (str(module["type"]), str(module["path"])) for module in json.loads(path.read_text())
        ]
        for _, place in modules:
            if Path(place).is_absolute() or ".." in Path(place).parts:
                raise ValueError(f"the path '{place}' leads out of the model's folder")
        return modules
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ProviderError(
            f"{path}: not a list of modules with type and path: {first_line(error)}",
            hint="Save the model again with sentence-transformers, or download it again.",
        ) from error


def _module_folders(folder: Path) -> list[Path]:
    """The folder itself and those of its modules; a router saved in the root has its own beside."""
    found = {folder, *(folder / path for _, path in _modules(folder))}
    for place in list(found):
        types = _json_object(place / "router_config.json").get("types")
        if isinstance(types, dict):
            found |= {place / name for name in types if Path(name).name == name != ".."}
    return sorted(found)


def _json_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text()) if file.is_file() else {}
    except (ValueError, RecursionError):
        return {}  # the loader will say so
    return content if isinstance(content, dict) else {}


def digest_of(folder: Path, with_code: bool) -> str:
    """Hash of the files that a loader reads: those of the folder itself and of its modules.

    Documentation, weights for other runtimes and hidden files are left out.
    """
    files: set[Path] = set()
    for place in _module_folders(folder):
        found = place.glob("*") if place == folder else place.rglob("*")
        files.update(file for file in found if file.is_file())
    digest = hashlib.blake2b(digest_size=20)
    for file in sorted(files):
        name = file.relative_to(folder)
        if name.name.startswith(".") or name.suffix in (".md", ".onnx", ".h5", ".msgpack", ".ot"):
            continue
        if name.suffix == ".py" and not with_code:
            continue
        with file.open("rb") as stream:
            # BLAKE2 took a third of SHA-256's time here: 0.13 s for 90 MB.
            content = hashlib.file_digest(stream, "blake2b").hexdigest()
        digest.update(f"{name.as_posix()}\n{content}\n".encode())
    return digest.hexdigest()


def check_files(name: str, folder: Path, *, remote_code: bool, pickle: bool) -> None:
    """Refuse files that run code when they are loaded, unless they are allowed."""
    if not remote_code:
        for kind in _module_types(folder):
            if not kind.startswith(("sentence_transformers.", "torch.")):
                raise ProviderError(
                    f"model '{name}' wants to run code of its own ({kind})", hint=REMOTE_CODE_HINT
                )
    if not pickle:
        for place in _module_folders(folder):
            has_safe = any(
                (place / weights).exists()
                for weights in (
                    "model.safetensors",
                    "model.safetensors.index.json",
                    "adapter_model.safetensors",
                )
            )
            pickles = sorted(
                file
                for pattern in PICKLES
                for file in place.glob(pattern)
                if not any(file.match(leftover) for leftover in _LEFTOVERS)
            )
            if pickles and not has_safe:
                raise ProviderError(
                    f"model '{name}' has its weights only as a pickle file "
                    f"({pickles[0].relative_to(folder)})",
                    hint=PICKLE_HINT,
                )


def _module_types(folder: Path) -> Iterator[str]:
    """Classes of all modules, those inside a router and activations included."""
    for kind, path in _modules(folder):
        yield kind
        for name in ("router_config.json", "config.json"):
            for file in (folder / path).rglob(name) if path else [folder / name]:
                content = _json_object(file)
                if isinstance(types := content.get("types"), dict):
                    yield from map(str, types.values())
                activation = content.get("activation_function")
                if path and isinstance(activation, str):
                    # One that is not torch's the library would quietly replace by another.
                    yield activation


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
