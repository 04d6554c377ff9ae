//! The sampler against a brute-force reference of its target distribution, with fixed seeds.

use proptest::prelude::*;
use toolgate_infer::{Constraint, Draw, Error, Forced, Kind, Mask, Sampler, SamplerOptions, TokenId};

/// Allows these tokens for ever; counts how often its mask was asked for.
struct Only {
    allowed: Vec<bool>,
    masks: usize,
}

impl Only {
    fn new(allowed: &[bool]) -> Self {
        Self { allowed: allowed.to_vec(), masks: 0 }
    }
}

impl Constraint for Only {
    fn allows(&mut self, token: TokenId) -> Result<bool, Error> {
        Ok(self.allowed[token as usize])
    }
    fn mask(&mut self) -> Result<Mask, Error> {
        self.masks += 1;
        let tokens = (0_u32..).zip(&self.allowed).filter(|&(_, &allowed)| allowed);
        Ok(Mask::of(self.allowed.len(), tokens.map(|(token, _)| token)))
    }
    fn accept(&mut self, _token: TokenId) -> Result<(), Error> {
        Ok(())
    }
    fn forced(&mut self) -> Result<Forced, Error> {
        Ok(Forced::default())
    }
    fn is_complete(&self) -> bool {
        false
    }
    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// The cuts and the temperature, over the tokens in `among`; probabilities by token.
fn cut(logits: &[f32], among: &[bool], options: &SamplerOptions) -> Vec<f64> {
    let best = logits
        .iter()
        .zip(among)
        .filter(|(_, among)| **among)
        .map(|(logit, _)| *logit)
        .fold(f32::MIN, f32::max);
    let mut kept: Vec<(usize, f64)> =
        (0..logits.len()).filter(|&i| among[i]).map(|i| (i, f64::from(logits[i] - best).exp())).collect();
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if options.top_k > 0 {
        kept.truncate(options.top_k);
    }
    let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let mut n = 0;
    while n < kept.len() && sum < total * f64::from(options.top_p) {
        sum += kept[n].1;
        n += 1;
    }
    if options.top_p < 1.0 {
        kept.truncate(n.max(1));
    }
    kept.retain(|(_, weight)| *weight >= f64::from(options.min_p));
    let mut probabilities = vec![0.0; logits.len()];
    for &(i, _) in &kept {
        probabilities[i] = (f64::from(logits[i] - best) / f64::from(options.temperature)).exp();
    }
    let total: f64 = probabilities.iter().sum();
    probabilities.iter().map(|p| p / total).collect()
}

/// The target distribution as the module documents it.
fn target(logits: &[f32], allowed: &[bool], options: &SamplerOptions) -> Vec<f64> {
    let all = cut(logits, &vec![true; logits.len()], options);
    let kept: f64 = all.iter().zip(allowed).filter(|(_, allowed)| **allowed).map(|(p, _)| p).sum();
    let survivors = all.iter().zip(allowed).any(|(p, allowed)| *allowed && *p > 0.0);
    if !survivors {
        return cut(logits, allowed, options);
    }
    all.iter().zip(allowed).map(|(p, allowed)| if *allowed { p / kept } else { 0.0 }).collect()
}

/// Draws many times and compares counts with the target by Pearson's statistic; tokens of probability 0 never come.
fn check(logits: &[f32], allowed: &[bool], options: SamplerOptions) {
    const DRAWS: usize = 40_000;
    let expected = target(logits, allowed, &options);
    let mut sampler = Sampler::new(&options).unwrap();
    let mut constraint = Only::new(allowed);
    let mut counts = vec![0_usize; logits.len()];
    for _ in 0..DRAWS {
        counts[sampler.draw(logits, &mut constraint).unwrap().token as usize] += 1;
    }
    let (mut statistic, mut degrees) = (0.0, 0_usize);
    for (i, (&count, &p)) in counts.iter().zip(&expected).enumerate() {
        if p == 0.0 {
            assert_eq!(count, 0, "token {i} is outside the target of {options:?}");
        } else {
            let mean = p * DRAWS as f64;
            if mean >= 5.0 {
                statistic += (count as f64 - mean).powi(2) / mean;
                degrees += 1;
            }
        }
    }
    // Mean n, variance 2n: five standard deviations above is far beyond the 0.999 quantile for these n.
    let degrees = degrees as f64;
    let bound = degrees + 5.0 * (2.0 * degrees).sqrt() + 3.0;
    assert!(
        statistic < bound,
        "chi-square {statistic:.1} over {degrees} cells for {options:?}: {counts:?} {expected:?}"
    );
}

const LOGITS: [f32; 10] = [2.0, 1.5, 1.5, 0.5, 0.0, -0.5, -1.0, 1.9, -2.0, 0.9];

fn options(temperature: f32, top_k: usize, top_p: f32, min_p: f32, seed: u64) -> SamplerOptions {
    SamplerOptions { temperature, top_k, top_p, min_p, seed, ..SamplerOptions::default() }
}

#[test]
fn draws_follow_the_masked_distribution() {
    let all = [true; 10];
    let most = [false, true, true, true, true, true, true, false, true, true];
    let few = [false, false, false, false, false, true, true, false, true, false];
    for allowed in [all, most, few] {
        check(&LOGITS, &allowed, options(1.0, 0, 1.0, 0.0, 1));
        check(&LOGITS, &allowed, options(2.0, 0, 1.0, 0.0, 2));
        check(&LOGITS, &allowed, options(0.5, 0, 1.0, 0.0, 3));
        check(&LOGITS, &allowed, options(1.0, 4, 1.0, 0.0, 4));
        check(&LOGITS, &allowed, options(1.5, 0, 0.8, 0.0, 5));
        check(&LOGITS, &allowed, options(0.8, 0, 1.0, 0.3, 6));
        check(&LOGITS, &allowed, options(1.2, 7, 0.9, 0.1, 7));
    }
}

/// What a sampler that forgot to mask, or masked before the first cut, would do: the check must notice.
#[test]
#[should_panic(expected = "chi-square")]
fn check_notices_another_temperature() {
    let all = [true; 10];
    let expected = target(&LOGITS, &all, &options(1.0, 0, 1.0, 0.0, 1));
    let warmer: Vec<f32> = expected.iter().map(|p| (p.ln() / 1.2) as f32).collect();
    // The logits of a warmer distribution, drawn from as if they were the model's.
    let mut sampler = Sampler::new(&options(1.0, 0, 1.0, 0.0, 1)).unwrap();
    let mut counts = [0_usize; 10];
    for _ in 0..40_000 {
        counts[sampler.draw(&warmer, &mut Only::new(&all)).unwrap().token as usize] += 1;
    }
    let statistic: f64 =
        counts.iter().zip(&expected).map(|(&n, p)| (n as f64 - p * 4e4).powi(2) / (p * 4e4)).sum();
    assert!(statistic < 40.0, "chi-square {statistic}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn greedy_is_the_argmax_of_the_masked_logits(
        pairs in prop::collection::vec((-8_i8..8, any::<bool>()), 1..200),
    ) {
        // Few distinct values, so that ties are common.
        let logits: Vec<f32> = pairs.iter().map(|&(logit, _)| f32::from(logit)).collect();
        let allowed: Vec<bool> = pairs.iter().map(|&(_, allowed)| allowed).collect();
        let mut constraint = Only::new(&allowed);
        let drawn = Sampler::greedy().draw(&logits, &mut constraint);
        let best = (0..logits.len()).filter(|&i| allowed[i]).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
        match best {
            Some(best) => prop_assert_eq!(drawn.unwrap().token as usize, best),
            None => prop_assert_eq!(drawn.unwrap_err().kind(), Kind::Constraint),
        }
        let top = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap();
        prop_assert_eq!(constraint.masks, usize::from(!allowed[top]), "the mask is asked for after a refusal only");
    }

    #[test]
    fn what_is_drawn_is_allowed_and_inside_the_cuts(
        pairs in prop::collection::vec((-6.0_f32..6.0, any::<bool>()), 1..300),
        temperature in 0.1_f32..3.0,
        top_k in 0_usize..20,
        top_p in 0.05_f32..=1.0,
        min_p in 0.0_f32..0.5,
        seed in any::<u64>(),
    ) {
        let logits: Vec<f32> = pairs.iter().map(|&(logit, _)| logit).collect();
        let mut allowed: Vec<bool> = pairs.iter().map(|&(_, allowed)| allowed).collect();
        allowed[0] = true;
        let options = options(temperature, top_k, top_p, min_p, seed);
        let expected = target(&logits, &allowed, &options);
        let (mut one, mut two) = (Sampler::new(&options).unwrap(), Sampler::new(&options).unwrap());
        for _ in 0..20 {
            let draw = one.draw(&logits, &mut Only::new(&allowed)).unwrap();
            // The boundary of a cut can fall either way by rounding: compare with slightly wider cuts.
            let wider = target(&logits, &allowed, &SamplerOptions {
                top_p: (options.top_p + 1e-4).min(1.0), min_p: options.min_p * 0.999, ..options.clone()
            });
            prop_assert!(expected[draw.token as usize] > 0.0 || wider[draw.token as usize] > 0.0);
            prop_assert_eq!(draw, two.draw(&logits, &mut Only::new(&allowed)).unwrap(), "same seed, same draw");
        }
    }
}

#[test]
fn refusal_reports_the_share_of_probability_removed() {
    // Probabilities 0.5, 0.3 and 0.2.
    let logits = [0.5_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
    let draw = |allowed: [bool; 3]| Sampler::greedy().draw(&logits, &mut Only::new(&allowed)).unwrap();
    assert_eq!(
        draw([true, false, false]),
        Draw { token: 0, removed: None },
        "no refusal, no mask, no number"
    );
    let removed = draw([false, false, true]).removed.unwrap();
    assert!((removed - 0.8).abs() < 1e-6, "{removed}");
}

#[test]
fn allowed_tokens_far_below_the_likeliest_are_drawn_by_their_own_ratio() {
    let mut logits = vec![0.0_f32; 3];
    logits[0] = 3_000.0;
    let mut counts = [0; 3];
    let mut sampler = Sampler::new(&options(1.0, 0, 1.0, 0.0, 9)).unwrap();
    for _ in 0..2_000 {
        counts[sampler.draw(&logits, &mut Only::new(&[false, true, true])).unwrap().token as usize] += 1;
    }
    assert!(counts[1] > 900 && counts[2] > 900, "{counts:?}");
}

#[test]
fn broken_logits_and_options_are_errors() {
    let mut only = Only::new(&[true, true]);
    for logits in [[f32::NAN, f32::NEG_INFINITY], [f32::INFINITY, f32::NAN]] {
        for mut sampler in [Sampler::greedy(), Sampler::new(&options(1.0, 1, 0.5, 0.1, 0)).unwrap()] {
            assert_eq!(sampler.draw(&logits, &mut only).unwrap_err().kind(), Kind::Backend);
            assert_eq!(
                sampler.draw(&[f32::NAN, 1.0], &mut only).unwrap().token,
                1,
                "one finite logit suffices"
            );
        }
    }
    for bad in [
        options(-0.1, 0, 1.0, 0.0, 0),
        options(f32::NAN, 0, 1.0, 0.0, 0),
        options(1.0, 0, 1.1, 0.0, 0),
        options(1.0, 0, 1.0, -0.1, 0),
    ] {
        assert_eq!(Sampler::new(&bad).unwrap_err().kind(), Kind::Options, "{bad:?}");
    }
    assert!(
        Sampler::new(&options(0.0, 0, 1.0, 0.0, 0)).is_ok()
            && Sampler::new(&options(1.0, 0, 0.0, 1.0, 0)).is_ok()
    );
}
