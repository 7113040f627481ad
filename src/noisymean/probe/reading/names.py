"""What the names of numbers promise. A name is a hint: it counts only where no value can be followed."""

from __future__ import annotations

import re

MACHINES = re.compile(
    r"world_size|(get_)?world_?size|n(um)?_(gpus|devices|replicas|workers|processes)|(local_)?device_count"
)
RATE = re.compile(r"rate|prob|^q$", re.IGNORECASE)
# Rates and numbers of the rounds of a run.
OF_STEPS = re.compile(r"decay|learning|dropout|steps?$|epochs?$|iter(ation)?s?$|rounds?$", re.IGNORECASE)
COUNT = re.compile(r"size|len|num|count|samples|records|examples|dataset|^n$", re.IGNORECASE)
DATASET = re.compile(
    r"data_?(set)?_?(size|len)|(train|data|dataset)_(size|len)|n(um)?_(train|data|total|records)|^total_(records|examples)",
    re.IGNORECASE,
)
# A number that everybody may know.
PUBLIC = re.compile(r"(^|_)public(_|$)", re.IGNORECASE)
# N, or |B|: the name does not tell.
EITHER = re.compile(r"n|(n|num|number)_?(of_)?(samples|examples|points|rows|items|records)", re.IGNORECASE)
DATA = re.compile(r"data|train|corpus|records|population|loader", re.IGNORECASE)
BATCH = re.compile(r"batch|mini|lot|sampled|chosen|selected|subset", re.IGNORECASE)
# Called like what belongs to people.
PEOPLE = re.compile(
    r"grad|sample|example|record|client|user|member|people|person|rows?$|points?$|^(x|y|xs|ys)$|inputs?$|images?$|labels?$|targets?$",
    re.IGNORECASE,
)
# Of fixed number in a model or a machine.
PARTS = re.compile(r"^_?(named_)?(param|layer|module|device|gpu|head)s?(eters|_groups|_list|_shapes)?$", re.IGNORECASE)
MASK = re.compile(
    r"mask|keep|kept|select|includ|chosen|sampled|particip|drawn|indicator|weights?$|^picked", re.IGNORECASE
)
# Numbers of records that were drawn, one for each.
CHOICE = re.compile(r"(^|_)(idx|idxs|index|indexes|indices|ids|chosen|selected|sampled|drawn|picked)$", re.IGNORECASE)
NORM = re.compile(r"norms?$|^norms?_", re.IGNORECASE)
BOUND = re.compile(
    r"^c$|^((l2|max|grad|per_sample|norm)_)*clip(ping)?(_(norm|value|bound|threshold|c))?$|(^|_)bound$|max_\w*norm$|threshold$|sensitivity$",
    re.IGNORECASE,
)
NORM_CALLS = re.compile(r"(vector_|global_|matrix_|clip_grad_|linalg_)?norm_?")
CASTS = re.compile(
    r"cast|float|float32|float64|double|asarray|array|tensor|as_tensor|maximum|minimum|max|min|convert_to_tensor|abs|clamp_?|clip_?"
    r"|item|to|type|astype|detach|cpu|cuda|clone|copy|squeeze|unsqueeze|reshape|view|expand_dims|sqrt|full|full_like|where|stop_gradient"
)
# Random numbers of which rows are chosen.
CHANCE = re.compile(
    r"permutation|randperm|choices?|sample|randint|integers|rand|random|random_sample|uniform|bernoulli|binomial|shuffle"
)
WHOLE = re.compile(r"int|floor|round|ceil|trunc|int32|int64|long|rint|floor_divide|round_|floor_")
COUNTS = re.compile(r"sum|count_nonzero|bincount|nansum|reduce_sum|psum")
SETTINGS = re.compile(
    r"^_?(args|arguments|config|configuration|cfg|conf|flags|hparams|hyperparams|opts|options|settings|namespace)$",
    re.IGNORECASE,
)
# A number that a caller fixes by its name, though it is handed over at every call.
FIXED = re.compile(
    r"^expected_|^nominal_|lot_size|^target_(batch|lot)|^fixed_|^logical_batch|accum\w*_?(steps?|iter|factor)|world_size|learning_rate|^lr$"
    r"|^momentum$|^beta\d?$|^sigma$|noise_mult|^temperature$|decay$",
    re.IGNORECASE,
)
# Classes that hold settings.
HOLDERS = re.compile(r"config|setting|option|param|arg|optimi[sz]er|engine", re.IGNORECASE)
ONCE = re.compile(r"__init__|__post_init__|__new__")
