//! Optimizers' updates, operation by operation as Keras computes them in float32.
//!
//! Each is elementwise: the new value and slots of an element follow from the old ones and a
//! gradient for it. No two operations are fused, so results are those of IEEE 754 everywhere.

use crate::tables::span::{each, Elementwise, Work};

/// An optimizer with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateRule {
    Sgd,
    Momentum {
        momentum: f32,
        nesterov: bool,
    },
    Adagrad {
        epsilon: f32,
    },
    Adam {
        beta_1: f32,
        beta_2: f32,
        rest_1: f32,
        rest_2: f32,
        epsilon: f32,
        amsgrad: bool,
    },
    RmsProp {
        rho: f32,
        rest: f32,
        momentum: f32,
        epsilon: f32,
        centered: bool,
    },
    Ftrl {
        power: f32,
        l1: f32,
        l2: f32,
        shrinkage: f32,
        beta: f32,
    },
}

impl UpdateRule {
    /// The rule of a name and its constants, if there is one.
    ///
    /// The constants are, in this order: of `sgd` none; of `momentum` the momentum and whether it
    /// is Nesterov's; of `adagrad` epsilon; of `adam` beta 1, beta 2, epsilon, whether it is
    /// AMSGrad; of `rmsprop` rho, the momentum, epsilon, whether it is centered; of `ftrl` the
    /// learning rate's power, l1, l2, the shrinkage, beta.
    pub fn new(name: &str, constants: &[f64]) -> Option<Self> {
        Some(match (name, constants) {
            ("sgd", []) => Self::Sgd,
            ("momentum", &[momentum, nesterov]) => Self::Momentum {
                momentum: momentum as f32,
                nesterov: nesterov != 0.0,
            },
            ("adagrad", &[epsilon]) => Self::Adagrad {
                epsilon: epsilon as f32,
            },
            ("adam", &[beta_1, beta_2, epsilon, amsgrad]) => Self::Adam {
                beta_1: beta_1 as f32,
                beta_2: beta_2 as f32,
                // As Keras does, in double precision first.
                rest_1: (1.0 - beta_1) as f32,
                rest_2: (1.0 - beta_2) as f32,
                epsilon: epsilon as f32,
                amsgrad: amsgrad != 0.0,
            },
            ("rmsprop", &[rho, momentum, epsilon, centered]) => Self::RmsProp {
                rho: rho as f32,
                rest: (1.0 - rho) as f32,
                momentum: momentum as f32,
                epsilon: epsilon as f32,
                centered: centered != 0.0,
            },
            ("ftrl", &[power, l1, l2, shrinkage, beta]) => Self::Ftrl {
                power: power as f32,
                l1: l1 as f32,
                l2: l2 as f32,
                shrinkage: (2.0 * shrinkage) as f32,
                beta: beta as f32,
            },
            _ => return None,
        })
    }

    /// How many slots each element has beside its value.
    pub fn slots(&self) -> usize {
        match *self {
            Self::Sgd => 0,
            Self::Momentum { .. } | Self::Adagrad { .. } => 1,
            Self::Adam { amsgrad, .. } => 2 + usize::from(amsgrad),
            Self::RmsProp {
                momentum, centered, ..
            } => 1 + usize::from(momentum > 0.0) + usize::from(centered),
            Self::Ftrl { .. } => 2,
        }
    }

    /// Updates the elements of `work`.
    ///
    /// # Safety
    /// That of `span::each`, with as many slots as `slots` tells.
    pub unsafe fn run(&self, work: &Work, rate: f32, iteration: i32) {
        // SAFETY: handed on to the caller; each call has as many slots as `slots` tells.
        unsafe {
            match *self {
                Self::Sgd => each(work, &Sgd { rate }),
                Self::Momentum { momentum, nesterov } => {
                    let step = Momentum { rate, momentum };
                    match nesterov {
                        false => each::<1, _>(work, &step),
                        true => each(work, &Nesterov(step)),
                    }
                }
                Self::Adagrad { epsilon } => each(work, &Adagrad { rate, epsilon }),
                Self::Adam {
                    beta_1,
                    beta_2,
                    rest_1,
                    rest_2,
                    epsilon,
                    amsgrad,
                } => {
                    let step = (iteration + 1) as f32;
                    let (power_1, power_2) = (beta_1.powf(step), beta_2.powf(step));
                    let step = Adam {
                        alpha: rate * (1.0 - power_2).sqrt() / (1.0 - power_1),
                        rest_1,
                        rest_2,
                        epsilon,
                    };
                    match amsgrad {
                        false => each::<2, _>(work, &step),
                        true => each::<3, _>(work, &step),
                    }
                }
                Self::RmsProp {
                    rho,
                    rest,
                    momentum,
                    epsilon,
                    centered,
                } => {
                    let step = RmsProp {
                        rate,
                        rho,
                        rest,
                        momentum,
                        epsilon,
                    };
                    match (momentum > 0.0, centered) {
                        (false, false) => each::<1, _>(work, &step),
                        (true, false) => each::<2, _>(work, &step),
                        (false, true) => each(work, &Centered(step)),
                        (true, true) => each::<3, _>(work, &step),
                    }
                }
                Self::Ftrl {
                    power,
                    l1,
                    l2,
                    shrinkage,
                    beta,
                } => {
                    let step = Ftrl {
                        rate,
                        power: -power,
                        l1,
                        twice_l2: 2.0 * (l2 + beta / (2.0 * rate)),
                        shrinkage,
                    };
                    match power == -0.5 {
                        true => each(work, &FtrlOfRoots(step)),
                        false => each(work, &step),
                    }
                }
            }
        }
    }
}

struct Sgd {
    rate: f32,
}

impl Elementwise<0> for Sgd {
    #[inline(always)]
    fn apply(&self, value: f32, _: [f32; 0], gradient: f32) -> (f32, [f32; 0]) {
        (value - gradient * self.rate, [])
    }
}

struct Momentum {
    rate: f32,
    momentum: f32,
}

impl Elementwise<1> for Momentum {
    #[inline(always)]
    fn apply(&self, value: f32, [velocity]: [f32; 1], gradient: f32) -> (f32, [f32; 1]) {
        let velocity = velocity * self.momentum - gradient * self.rate;
        (value + velocity, [velocity])
    }
}

struct Nesterov(Momentum);

impl Elementwise<1> for Nesterov {
    #[inline(always)]
    fn apply(&self, value: f32, [velocity]: [f32; 1], gradient: f32) -> (f32, [f32; 1]) {
        let step = gradient * self.0.rate;
        let velocity = velocity * self.0.momentum - step;
        (value + (velocity * self.0.momentum - step), [velocity])
    }
}

struct Adagrad {
    rate: f32,
    epsilon: f32,
}

impl Elementwise<1> for Adagrad {
    #[inline(always)]
    fn apply(&self, value: f32, [sum]: [f32; 1], gradient: f32) -> (f32, [f32; 1]) {
        let sum = sum + gradient * gradient;
        let root = (sum + self.epsilon).sqrt();
        (value - self.rate * gradient / root, [sum])
    }
}

struct Adam {
    alpha: f32,
    rest_1: f32,
    rest_2: f32,
    epsilon: f32,
}

impl Adam {
    #[inline(always)]
    fn moments(&self, m: f32, v: f32, gradient: f32) -> (f32, f32) {
        let m = m + (gradient - m) * self.rest_1;
        (m, v + (gradient * gradient - v) * self.rest_2)
    }

    #[inline(always)]
    fn step(&self, m: f32, v: f32) -> f32 {
        m * self.alpha / (v.sqrt() + self.epsilon)
    }
}

impl Elementwise<2> for Adam {
    #[inline(always)]
    fn apply(&self, value: f32, [m, v]: [f32; 2], gradient: f32) -> (f32, [f32; 2]) {
        let (m, v) = self.moments(m, v, gradient);
        (value - self.step(m, v), [m, v])
    }
}

impl Elementwise<3> for Adam {
    #[inline(always)]
    fn apply(&self, value: f32, [m, v, most]: [f32; 3], gradient: f32) -> (f32, [f32; 3]) {
        let (m, v) = self.moments(m, v, gradient);
        let most = most.max(v);
        (value - self.step(m, most), [m, v, most])
    }
}

struct RmsProp {
    rate: f32,
    rho: f32,
    rest: f32,
    momentum: f32,
    epsilon: f32,
}

impl RmsProp {
    #[inline(always)]
    fn velocity(&self, velocity: f32, gradient: f32) -> f32 {
        self.rho * velocity + self.rest * (gradient * gradient)
    }

    #[inline(always)]
    fn mean(&self, mean: f32, gradient: f32) -> f32 {
        self.rho * mean + self.rest * gradient
    }

    #[inline(always)]
    fn step(&self, variance: f32, gradient: f32) -> f32 {
        self.rate * gradient / (variance + self.epsilon).sqrt()
    }
}

impl Elementwise<1> for RmsProp {
    #[inline(always)]
    fn apply(&self, value: f32, [velocity]: [f32; 1], gradient: f32) -> (f32, [f32; 1]) {
        let velocity = self.velocity(velocity, gradient);
        (value - self.step(velocity, gradient), [velocity])
    }
}

impl Elementwise<2> for RmsProp {
    #[inline(always)]
    fn apply(&self, value: f32, [velocity, moved]: [f32; 2], gradient: f32) -> (f32, [f32; 2]) {
        let velocity = self.velocity(velocity, gradient);
        let moved = self.momentum * moved + self.step(velocity, gradient);
        (value - moved, [velocity, moved])
    }
}

struct Centered(RmsProp);

impl Elementwise<2> for Centered {
    #[inline(always)]
    fn apply(&self, value: f32, [velocity, mean]: [f32; 2], gradient: f32) -> (f32, [f32; 2]) {
        let velocity = self.0.velocity(velocity, gradient);
        let mean = self.0.mean(mean, gradient);
        let step = self.0.step(velocity - mean * mean, gradient);
        (value - step, [velocity, mean])
    }
}

impl Elementwise<3> for RmsProp {
    #[inline(always)]
    fn apply(
        &self,
        value: f32,
        [velocity, moved, mean]: [f32; 3],
        gradient: f32,
    ) -> (f32, [f32; 3]) {
        let velocity = self.velocity(velocity, gradient);
        let mean = self.mean(mean, gradient);
        let moved = self.momentum * moved + self.step(velocity - mean * mean, gradient);
        (value - moved, [velocity, moved, mean])
    }
}

struct Ftrl {
    rate: f32,
    power: f32,
    l1: f32,
    twice_l2: f32,
    shrinkage: f32,
}

impl Ftrl {
    #[inline(always)]
    fn step(
        &self,
        value: f32,
        [sum, linear]: [f32; 2],
        gradient: f32,
        power: impl Fn(f32) -> f32,
    ) -> (f32, [f32; 2]) {
        let shrunk = gradient + self.shrinkage * value;
        let grown = sum + gradient * gradient;
        let now = power(grown);
        let linear = linear + (shrunk - (now - power(sum)) / self.rate * value);
        let quadratic = now / self.rate + self.twice_l2;
        // Not `clamp`, which panics for a negative l1.
        let clipped = linear.max(-self.l1).min(self.l1);
        ((clipped - linear) / quadratic, [grown, linear])
    }
}

impl Elementwise<2> for Ftrl {
    #[inline(always)]
    fn apply(&self, value: f32, slots: [f32; 2], gradient: f32) -> (f32, [f32; 2]) {
        self.step(value, slots, gradient, |x| x.powf(self.power))
    }
}

struct FtrlOfRoots(Ftrl);

impl Elementwise<2> for FtrlOfRoots {
    #[inline(always)]
    fn apply(&self, value: f32, slots: [f32; 2], gradient: f32) -> (f32, [f32; 2]) {
        self.0.step(value, slots, gradient, f32::sqrt)
    }
}
