"""Operations on tensors, and the operators of `Tensor`, which importing this package installs."""

from drumline.compat.composite import ragged as ragged
from drumline.compat.composite import sparse as sparse
from drumline.compat.ops import elementwise as elementwise
