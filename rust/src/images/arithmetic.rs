//! Arithmetic with constants on the values of images, rounded where XLA's programs round.

use super::vectorized::vectorized;

/// What is done with every value; there are constants for the values of many pixels.
#[derive(Debug, PartialEq)]
pub enum Step {
    Add(Vec<f32>),
    Multiply(Vec<f32>),
    /// A product, and what is added to it before it is rounded.
    MultiplyAdd(Vec<f32>, Vec<f32>),
}

/// Constants for so many values or a few more: a loop over them is worth beginning.
const VALUES: usize = 1024;

impl Step {
    /// `"add"`, `"mul"` or `"mul_add"` with constants: one, or one for each channel.
    pub fn named(name: &str, constants: [&[f32]; 2], channels: usize) -> Option<Self> {
        let [first, second] = constants.map(|constants| repeated(constants, channels));
        match (name, constants[1].is_empty()) {
            ("add", true) => Some(Self::Add(first?)),
            ("mul", true) => Some(Self::Multiply(first?)),
            ("mul_add", false) => Some(Self::MultiplyAdd(first?, second?)),
            _ => None,
        }
    }

    /// How many values its constants are repeated for.
    pub fn constants(&self) -> usize {
        match self {
            Self::Add(constants) | Self::Multiply(constants) => constants.len(),
            Self::MultiplyAdd(factors, _) => factors.len(),
        }
    }
}

fn repeated(constants: &[f32], channels: usize) -> Option<Vec<f32>> {
    let fits = channels > 0 && (constants.len() == 1 || constants.len() == channels);
    let length = fits.then(|| VALUES.next_multiple_of(channels))?;
    Some(constants.iter().copied().cycle().take(length).collect())
}

/// Takes the steps in order on whole pixels.
pub fn apply(steps: &[Step], values: &mut [f32]) {
    let Some(length) = steps.first().map(Step::constants) else {
        return;
    };
    for values in values.chunks_mut(AT_ONCE.div_ceil(length) * length) {
        for step in steps {
            match step {
                Step::Add(constants) => add(values, constants),
                Step::Multiply(constants) => multiply(values, constants),
                Step::MultiplyAdd(factors, constants) => multiply_add(values, factors, constants),
            }
        }
    }
}

/// Values that stay in the first cache while all steps are taken.
const AT_ONCE: usize = 2048;

vectorized! {
    fn add(values: &mut [f32], constants: &[f32]) {
        for values in values.chunks_mut(constants.len()) {
            for (value, constant) in values.iter_mut().zip(constants) {
                *value += constant;
            }
        }
    }
}

vectorized! {
    fn multiply(values: &mut [f32], constants: &[f32]) {
        for values in values.chunks_mut(constants.len()) {
            for (value, constant) in values.iter_mut().zip(constants) {
                *value *= constant;
            }
        }
    }
}

pub fn multiply_add(values: &mut [f32], factors: &[f32], constants: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { multiply_add_wide(values, factors, constants) };
    }
    multiply_add_plain(values, factors, constants);
}

/// # Safety
/// The processor has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_add_wide(values: &mut [f32], factors: &[f32], constants: &[f32]) {
    multiply_add_plain(values, factors, constants);
}

#[inline(always)]
fn multiply_add_plain(values: &mut [f32], factors: &[f32], constants: &[f32]) {
    for values in values.chunks_mut(factors.len()) {
        for ((value, factor), constant) in values.iter_mut().zip(factors).zip(constants) {
            *value = value.mul_add(*factor, *constant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{apply, multiply_add_plain, Step};

    #[test]
    fn each_channel_meets_its_constant() {
        let values: Vec<f32> = (0..3 * 5000).map(|i| i as f32 * 0.37).collect();
        let (means, factors) = ([-1.5, -2.5, -3.5], [0.3]);
        let steps = [
            Step::named("add", [&means, &[]], 3).unwrap(),
            Step::named("mul", [&factors, &[]], 3).unwrap(),
        ];
        let mut found = values.clone();
        apply(&steps, &mut found);
        for (i, (found, value)) in found.iter().zip(&values).enumerate() {
            assert_eq!(*found, (value + means[i % 3]) * factors[0], "value {i}");
        }
    }

    #[test]
    fn a_product_and_a_sum_are_rounded_once() {
        let values: Vec<f32> = (0..999).map(|i| i as f32 * 0.37).collect();
        let steps = [Step::named("mul_add", [&[1.0 / 127.5], &[-1.0]], 3).unwrap()];
        let (mut found, mut plain) = (values.clone(), values.clone());
        apply(&steps, &mut found);
        multiply_add_plain(&mut plain, &[1.0 / 127.5], &[-1.0]);
        assert_eq!(found, plain);
        let exact = |value: f32| (f64::from(value) * f64::from(1.0f32 / 127.5) - 1.0) as f32;
        assert_eq!(found, values.into_iter().map(exact).collect::<Vec<_>>());
    }

    #[test]
    fn constants_are_one_or_one_for_each_channel() {
        assert_eq!(Step::named("add", [&[1.0, 2.0], &[]], 3), None);
        assert_eq!(Step::named("add", [&[], &[]], 3), None);
        assert_eq!(Step::named("mul", [&[1.0], &[2.0]], 3), None);
        assert_eq!(Step::named("mul_add", [&[1.0], &[]], 3), None);
    }
}
