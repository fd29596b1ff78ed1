"""Session hash: a conversation goes where the hash of its id says (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import or_all
from carbon_gym import draws
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes

_SEED = 0
_STREAM = "session-hash"


class SessionHash:
    """Consistent hash of the session over the pools with room, there the largest model that fits.

    The kind of routing that vLLM's production stack calls session routing (rule PUBLISHED,
    details ASSUMED). Each session ranks the pools (GPU type in a region) by a hash of its own key
    and theirs, and takes the first with room: when a pool fills up, only its own sessions move
    (rendezvous hashing). Quality and TTFT bounds do not bind it (SPEC §6, *). Without room
    anywhere it takes the first pool.
    """

    name = "session-hash"

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Name the pools and order the models by size; of equals the first by name."""
        pairs = sorted(set(zip(fleet.gpu.tolist(), fleet.region.tolist(), strict=True)))
        keys = [
            draws.key_of_text(f"{fleet.gpus[gpu]}\n{fleet.regions[region]}")
            for gpu, region in pairs
        ]
        self._pool_key = np.array(keys, dtype=np.uint64)
        by_size = sorted(
            range(len(fleet.models)), key=lambda m: (-fleet.params_billion[m], fleet.models[m])
        )
        of_triple = {
            (model, (gpu, region)): d
            for d, (model, gpu, region) in enumerate(
                zip(fleet.model.tolist(), fleet.gpu.tolist(), fleet.region.tolist(), strict=True)
            )
        }
        self._deployment = np.array([[of_triple[m, pair] for pair in pairs] for m in by_size])
        """int64 (M, P), largest model first."""
        self._context_tokens = fleet.context_tokens[by_size]

    def choose(self, quotes: Quotes) -> Ints:
        """The pool by hash, the model by size."""
        score = draws.bits(_SEED, _STREAM, quotes.session_key[:, None], 0, component=self._pool_key)
        room = or_all(quotes.available[:, self._deployment[0]])
        pool = np.where(room, score, np.uint64(0)).argmax(axis=1)
        needed = quotes.history_tokens + quotes.prompt_tokens + quotes.predicted_output_tokens
        fits_from = np.minimum(needed, self._context_tokens.max())
        largest_that_fits = (self._context_tokens >= fits_from[:, None]).argmax(axis=1)
        return np.asarray(self._deployment[largest_that_fits, pool], dtype=np.int64)
