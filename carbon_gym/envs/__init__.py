"""The environments; importing `carbon_gym` registers them.

Data flows from `world` (fleets of a split, served once by the background's policy) through `desk`
(the lanes' arrays) and `kernels` (serve, observe, begin) to `routing`, `fleet` and `vector`, the
three environments. `layout` names what an observation holds, `information` what `info` holds.
"""
