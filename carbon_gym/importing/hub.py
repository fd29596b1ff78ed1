"""Public data sets of the Hugging Face hub, through the hub's own client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from carbon_gym.errors import InputError, did_you_mean, from_extra
from carbon_gym.workload.readers.files import DATA_ENDINGS

KNOWN: Final[dict[str, str]] = {
    "sharegpt": "anon8231489123/ShareGPT_Vicuna_unfiltered:"
    "ShareGPT_V3_unfiltered_cleaned_split.json",
    "sharechat": "tucnguyen/ShareChat:chatgpt_results_final_language_filtered.csv",
    "wildchat": "allenai/WildChat-4.8M",
    "lmsys": "lmsys/lmsys-chat-1m",
    "burstgpt": "lzzmm/BurstGPT",
}
"""Short names of data sets, as owner/name or owner/name:file."""

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")
_ENDINGS: Final = (*DATA_ENDINGS, ".parquet", *(f"{end}.gz" for end in DATA_ENDINGS))
_NOT_DATA: Final = frozenset({"readme.txt", "license.txt", "dataset_info.json", "config.json"})


def fetch(name: str) -> Path:
    """Fetch one file of a data set into the client's cache.

    Args:
        name: One of `KNOWN`, ``owner/name`` or ``owner/name:file``. Without a file, the first by
            name whose ending is that of data is taken, since large data sets come in many parts.

    Raises:
        InputError: The client is not installed, there is no such data set or file, access is not
            granted, or the hub cannot be reached.
    """
    repository, _, wanted = KNOWN.get(name, name).partition(":")
    if not _NAME.fullmatch(repository):
        raise InputError(
            f"--from-hub {name!r} is no data set; {did_you_mean(name, KNOWN)}give owner/name, "
            f"owner/name:file or one of {', '.join(KNOWN)}"
        )
    hub = _client(name)
    try:
        files = hub.HfApi().list_repo_files(repository, repo_type="dataset")
        file = _chosen(name, files, wanted)
        return Path(hub.hf_hub_download(repository, file, repo_type="dataset"))
    except InputError:
        raise
    except hub.errors.GatedRepoError:
        raise InputError(
            f"--from-hub {name}: {repository} asks its users to accept its terms; accept them on "
            "its page, then run `hf auth login`"
        ) from None
    except hub.errors.RepositoryNotFoundError:
        raise InputError(
            f"--from-hub {name}: there is no public data set {repository}; check the name, or run "
            "`hf auth login` if it is yours"
        ) from None
    except Exception as error:  # whatever the network or the client may raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"--from-hub {name}: {repository} could not be fetched ({first:.200}); check the "
            "network, or download the file by hand and name it"
        ) from None


def _client(name: str) -> Any:
    otherwise = ", or download the file by hand and name it"
    with from_extra(f"--from-hub {name}", "data", otherwise):
        import huggingface_hub
        import huggingface_hub.errors
    return huggingface_hub


def _chosen(name: str, files: Sequence[str], wanted: str) -> str:
    if wanted:
        if wanted in files:
            return wanted
        raise InputError(
            f"--from-hub {name}: has no file {wanted!r}; {did_you_mean(wanted, files)}found "
            f"{', '.join(sorted(files)[:12])}"
        )
    data = [
        file
        for file in sorted(files)
        if ".." not in PurePosixPath(file).parts
        and file.lower().endswith(_ENDINGS)
        and PurePosixPath(file).name.lower() not in _NOT_DATA
    ]
    if not data:
        raise InputError(
            f"--from-hub {name}: has no file that ends in {', '.join(_ENDINGS)}; found "
            f"{', '.join(sorted(files)[:12]) or 'none'}"
        )
    return data[0]
