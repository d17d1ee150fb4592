"""Operations on bytes and on arrays of varying shapes, run natively on whole columns."""
