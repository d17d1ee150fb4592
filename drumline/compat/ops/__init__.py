"""Operations on tensors, and the operators of `Tensor`, which importing this package installs."""

from drumline.compat.ops import elementwise as elementwise
from drumline.compat.composite import ragged as ragged
