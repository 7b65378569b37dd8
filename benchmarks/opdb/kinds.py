"""The kinds of operators, by name: who adds a kind sees in one table what of it is missing."""

from __future__ import annotations

import re

_PATTERNS: tuple[tuple[str, str], ...] = (
    (
        "size depends on data, random, sparse",
        r"nonzero|unique|masked_select|argwhere|bernoulli|cauchy|exponential|geometric|log_normal|^normal"
        r"|multinomial|uniform|rand|dropout|to_sparse|sparse|empty|resize|jagged|rrelu|nested|ctc_loss|^item$"
        r"|_scaled_mm|segment_reduce|svd_lowrank|pca_lowrank|fractional_max_pool",
    ),
    (
        "complex and fft",
        r"fft|stft|complex|polar|angle|^real|^imag|conj|cfloat|cdouble|chalf|_as_real|^H$|^mH$|vdot",
    ),
    (
        "linear algebra",
        r"^linalg_(?!(vector_)?norm|cross|diagonal|vecdot|matmul|multi_dot|vander|tensor)|cholesky|^lu|qr$|solve"
        r"|svd|eig|geqrf|orgqr|ormqr|householder|^inverse$|logdet|^det$|slogdet|pinv|lobpcg|matrix_exp"
        r"|matrix_power|nuc$|trapezoid",
    ),
    (
        "computed indices",
        r"gather|scatter|take|index|^put$|embedding|unpool|as_strided|unfold|fold$|grid_sample|affine_grid"
        r"|repeat_interleave|masked_scatter|diag|tril|triu|pool.*indices|getitem|one_hot|bincount|histogram"
        r"|histc|searchsorted|bucketize|isin|unravel",
    ),
    (
        "order",
        r"sort|topk|kthvalue|median|quantile|mode$|cummax|cummin",
    ),
    (
        "products with computed weights, three dimensions",
        r"conv|bilinear$|trilinear|_int_mm|pool3d|pool1d|pool2d|addbmm|baddbmm|addmv|addr|^mm|matmul|bmm|tensordot|einsum"
        r"|linear$|interpolate|upsample|scaled_dot|multi_dot|vecdot|inner|outer|kron|^dot$|^mv$|addmm|attention|cross$",
    ),
    (
        "rows and losses",
        r"norm|loss|logsumexp|logcumsumexp|cosine_similarity|cdist|pairwise|pdist|renorm|cumprod|prod|cumsum"
        r"|count_nonzero|aminmax|^var|^std|trace|local_response|kl_div|nll|cross_entropy|fake_quant|batch_norm"
        r"|softmax|softmin|^sum|^mean|nansum|nanmean|amax|amin|argmax|argmin|^all$|^any$|^max|^min|masked_|cov"
        r"|corrcoef|gradient|cumulative|diff$|dist$|hinge|sum_to_size",
    ),
    (
        "functions of two variables",
        r"atan2|hypot|pow|xlog|logaddexp|copysign|ldexp|fmod|remainder|^div|true_divide|floor_divide|nextafter"
        r"|fmin|fmax|heaviside|lerp|addcdiv|addcmul|float_power|zeta|^add$|^sub$|^mul$|rsub|maximum|minimum"
        r"|^__r(div|sub|mul|add|pow|mod)|frexp|cross",
    ),
    (
        "whole numbers and predicates",
        r"floor|ceil|round|trunc|frac|signbit|^sign$|sgn|isfinite|isinf|isnan|isneginf|isposinf|isreal|nan_to_num"
        r"|isclose|shift|gcd|lcm|bitwise|logical|equal|allclose|^(eq|ne|lt|le|gt|ge)$|^__r(and|or|xor)"
        r"|^(int|long|short|bool|byte|char|float|double|half|bfloat16)$|clamp|clip|^to$|type_as|where",
    ),
    (
        "functions of one variable",
        r"special_|sin|cos|tan|erf|gamma|^i0|logit|exp|log|sqrt|rsqrt|reciprocal|sigmoid|tanh|gelu|silu|mish|elu"
        r"|soft|hard|relu|threshold|square|positive|^neg|abs|deg|rad2|deg2|prelu|igamma|frac|absolute",
    ),
    ("movement and the rest", r""),
)

KINDS: tuple[str, ...] = tuple(name for name, _ in _PATTERNS)


def kind(operator: str) -> str:
    """The kind of an operator: the first of the table whose pattern is in its name."""
    plain = re.sub(r"^nn\.functional\.|^_refs\.|^torch\.ops\.aten\.", "", operator).replace(".", "_")
    return next(name for name, pattern in _PATTERNS if re.search(pattern, plain))
