//! The order of the coefficients of a block in memory.

/// Where a coefficient is put that lies beyond the last.
pub const NOWHERE: u8 = 64;

/// The place of each coefficient of the file's zigzag order, and `NOWHERE` beyond: there are as many
/// as a count below 64 and a byte can say.
///
/// Rows come in pairs, 0 and 4, 2 and 6, 1 and 3, 5 and 7, of which columns alternate: so the sums of
/// two products in which transforms consist are one instruction for many columns.
pub const PLACES: [u8; 512] = {
    let mut places = [NOWHERE; 512];
    let mut k = 0;
    while k < 64 {
        let natural = ZIGZAG[k] as usize;
        places[k] = PAIRED[natural / 8] + 2 * (natural % 8) as u8;
        k += 1;
    }
    places
};

/// The place of the first coefficient of each row.
const PAIRED: [u8; 8] = [0, 32, 16, 33, 1, 48, 17, 49];

/// The coefficients in zigzag order, counted row by row.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Coefficients, or what each is multiplied with, in the order of `PLACES`.
pub type Block = [i16; 64];

/// The factors of a quantization table, which is in zigzag order.
pub fn factors(table: &[u16; 64]) -> Block {
    let mut factors = [0; 64];
    for (&place, &value) in PLACES.iter().zip(table) {
        factors[usize::from(place)] = value as i16;
    }
    factors
}
