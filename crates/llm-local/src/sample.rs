//! The choice of a token.

use llm_provider::ModelParameters;

/// Chooses tokens: the likeliest one, or by chance where a temperature is set.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f32,
    top_p: f32,
    state: u64,
}

impl Sampler {
    /// Without a seed the same request gives the same answer too.
    #[expect(clippy::cast_possible_truncation, reason = "small numbers, as near as they can be")]
    pub(crate) fn new(parameters: &ModelParameters) -> Self {
        Self {
            temperature: parameters.temperature.unwrap_or(0.0) as f32,
            top_p: parameters.top_p.unwrap_or(1.0) as f32,
            state: parameters.seed.unwrap_or(0),
        }
    }

    /// The token, among those whose number is not minus infinity; none where all are.
    pub(crate) fn choose(&mut self, numbers: &[f32]) -> Option<u32> {
        let best = numbers.iter().enumerate().filter(|(_, number)| **number > f32::NEG_INFINITY);
        let (best, highest) = best.max_by(|(_, left), (_, right)| left.total_cmp(right))?;
        let best = u32::try_from(best).ok()?;
        if self.temperature <= 0.0 {
            return Some(best);
        }
        let share = |number: f32| ((number - highest) / self.temperature).exp();
        let mut shares: Vec<(u32, f32)> = (0..)
            .zip(numbers)
            .map(|(token, number)| (token, share(*number)))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        if self.top_p < 1.0 {
            shares.sort_unstable_by(|(_, left), (_, right)| right.total_cmp(left));
            let mut left = self.top_p * shares.iter().map(|(_, share)| share).sum::<f32>();
            let mut count = 0;
            while left > 0.0 && count < shares.len() {
                left -= shares[count].1;
                count += 1;
            }
            shares.truncate(count.max(1));
        }
        let mut left = self.chance() * shares.iter().map(|(_, share)| share).sum::<f32>();
        for (token, share) in &shares {
            left -= share;
            if left < 0.0 {
                return Some(*token);
            }
        }
        Some(best)
    }

    /// A number from 0 up to 1: splitmix64.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
    fn chance(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1_u32 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f64, top_p: f64) -> Sampler {
        let parameters = ModelParameters {
            temperature: Some(temperature),
            top_p: Some(top_p),
            seed: Some(1),
            ..ModelParameters::default()
        };
        Sampler::new(&parameters)
    }

    #[test]
    fn the_likeliest_is_chosen_where_no_temperature_is_set() {
        let numbers = [0.0, 3.0, f32::NEG_INFINITY, 2.0];
        assert_eq!(Sampler::new(&ModelParameters::default()).choose(&numbers), Some(1));
        assert_eq!(sampler(1.0, 0.01).choose(&numbers), Some(1));
        assert_eq!(sampler(1.0, 1.0).choose(&[f32::NEG_INFINITY]), None);
    }

    #[test]
    fn chance_follows_the_numbers() {
        let mut sampler = sampler(1.0, 1.0);
        let numbers = [0.0, 1.0, f32::NEG_INFINITY];
        let mut seen = [0_u32; 3];
        for _ in 0..2_000 {
            seen[sampler.choose(&numbers).unwrap() as usize] += 1;
        }
        // One in 1 + e is 27 %.
        assert!((480..600).contains(&seen[0]), "{seen:?}");
        assert_eq!(seen[2], 0);
    }
}
