//! The innermost loop: a tile of a product of two matrices that are read where they lie.

use super::lanes::Lanes;

/// Numbers in a row of the widest tile of any instruction set.
pub const WIDEST: usize = 32;

/// Where the left matrix of a product lies: `steps` runs of `run` columns.
#[derive(Clone, Copy)]
pub struct Left {
    pub from: *const f32,
    /// From one row of the tile to the next.
    pub row: usize,
    pub steps: usize,
    /// From one run to the next.
    pub step: usize,
    pub run: usize,
    /// From one column of a run to the next.
    pub column: usize,
}

/// Where the right matrix lies: rows of two registers, one after another in a run.
#[derive(Clone, Copy)]
pub struct Right {
    pub from: *const f32,
    /// From one run to the next.
    pub step: usize,
}

/// Where a tile of the product goes.
#[derive(Clone, Copy)]
pub struct Product {
    pub to: *mut f32,
    /// From one row of the tile to the next.
    pub row: usize,
    /// Numbers in a row: at most two registers.
    pub width: usize,
    /// Whether to add to what is there.
    pub add: bool,
}

/// Multiplies `rows` rows of `left` by `right`.
///
/// # Safety
/// `rows` is in `1..=V::ROWS`, everything described lies in memory of the caller's.
#[inline(always)]
pub unsafe fn multiply<V: Lanes>(rows: usize, left: Left, right: Right, product: Product) {
    if product.width <= V::COUNT {
        by_rows::<V, 1>(rows, left, right, product);
    } else {
        by_rows::<V, 2>(rows, left, right, product);
    }
}

#[inline(always)]
unsafe fn by_rows<V: Lanes, const REGISTERS: usize>(
    rows: usize,
    left: Left,
    right: Right,
    product: Product,
) {
    match rows {
        1 => tile::<V, 1, REGISTERS>(left, right, product),
        2 => tile::<V, 2, REGISTERS>(left, right, product),
        3 => tile::<V, 3, REGISTERS>(left, right, product),
        4 => tile::<V, 4, REGISTERS>(left, right, product),
        5 => tile::<V, 5, REGISTERS>(left, right, product),
        6 => tile::<V, 6, REGISTERS>(left, right, product),
        rows if V::ROWS <= 6 => unreachable!("{rows} rows in a tile of at most 6"),
        7 => tile::<V, 7, REGISTERS>(left, right, product),
        8 => tile::<V, 8, REGISTERS>(left, right, product),
        9 => tile::<V, 9, REGISTERS>(left, right, product),
        10 => tile::<V, 10, REGISTERS>(left, right, product),
        11 => tile::<V, 11, REGISTERS>(left, right, product),
        12 => tile::<V, 12, REGISTERS>(left, right, product),
        13 => tile::<V, 13, REGISTERS>(left, right, product),
        14 => tile::<V, 14, REGISTERS>(left, right, product),
        rows => unreachable!("{rows} rows in a tile of at most 14"),
    }
}

#[inline(always)]
unsafe fn tile<V: Lanes, const ROWS: usize, const REGISTERS: usize>(
    left: Left,
    right: Right,
    product: Product,
) {
    let full = product.width == REGISTERS * V::COUNT;
    let mut edge = [[0.0f32; WIDEST]; ROWS];
    let (to, row) = if full {
        (product.to, product.row)
    } else {
        (edge.as_mut_ptr().cast::<f32>(), WIDEST)
    };
    if !full && product.add {
        copy(ROWS, product.width, product.to, product.row, to, row);
    }
    let zero = [0.0f32; WIDEST];
    let mut sums = [[V::load(zero.as_ptr()); REGISTERS]; ROWS];
    accumulate(&mut sums, left, right);
    for (i, registers) in sums.iter().enumerate() {
        for (j, register) in registers.iter().enumerate() {
            let to = to.add(i * row + j * V::COUNT);
            // Sums of sums round less than one long sum.
            let total = if product.add {
                register.plus(V::load(to))
            } else {
                *register
            };
            total.store(to);
        }
    }
    if !full {
        copy(ROWS, product.width, to, row, product.to, product.row);
    }
}

#[inline(always)]
unsafe fn accumulate<V: Lanes, const ROWS: usize, const REGISTERS: usize>(
    sums: &mut [[V; REGISTERS]; ROWS],
    left: Left,
    right: Right,
) {
    for step in 0..left.steps {
        let mut from = left.from.add(step * left.step);
        let mut other = right.from.add(step * right.step);
        for _ in 0..left.run {
            let registers: [V; REGISTERS] = load(other);
            for (i, row) in sums.iter_mut().enumerate() {
                let factor = from.add(i * left.row);
                for (sum, register) in row.iter_mut().zip(registers) {
                    *sum = sum.add_product(factor, register);
                }
            }
            other = other.add(2 * V::COUNT);
            from = from.add(left.column);
        }
    }
}

#[inline(always)]
unsafe fn load<V: Lanes, const REGISTERS: usize>(from: *const f32) -> [V; REGISTERS] {
    let mut registers = [V::load(from); REGISTERS];
    for (j, register) in registers.iter_mut().enumerate().skip(1) {
        *register = V::load(from.add(j * V::COUNT));
    }
    registers
}

#[inline(always)]
unsafe fn copy(
    rows: usize,
    width: usize,
    from: *const f32,
    from_row: usize,
    to: *mut f32,
    to_row: usize,
) {
    for i in 0..rows {
        std::ptr::copy_nonoverlapping(from.add(i * from_row), to.add(i * to_row), width);
    }
}
