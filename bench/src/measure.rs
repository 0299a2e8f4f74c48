//! CPU time of this process, and what one piece of work costs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often each piece of work is measured; the figure is the median.
const RUNS: usize = 7;
/// A measurement takes at least this much CPU time, by repeating the work, so that the clock's own cost vanishes.
const LEAST: Duration = Duration::from_millis(20);

/// User and system time that all threads of this process have used.
pub(crate) fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// CPU time of one call.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = cpu();
    std::hint::black_box(work());
    cpu().saturating_sub(start)
}

/// Something to measure; each call gives the nanoseconds of one unit.
pub(crate) struct Work<'a>(Box<dyn FnMut() -> f64 + 'a>);

impl<'a> Work<'a> {
    /// Work that can be repeated as it is. The first call warms up and tells how often to repeat it.
    pub(crate) fn repeated<T>(mut work: impl FnMut() -> T + 'a) -> Self {
        let first = timed(&mut work).max(Duration::from_nanos(50));
        let rounds = (LEAST.as_nanos() / first.as_nanos()).clamp(1, 1_000_000);
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Self(Box::new(move || {
            let all = timed(|| {
                for _ in 0..rounds {
                    std::hint::black_box(work());
                }
            });
            nanos(all) / f64::from(rounds)
        }))
    }

    /// Work that measures the part that counts by itself, so that building it up is left out.
    pub(crate) fn part(mut work: impl FnMut() -> Duration + 'a) -> Self {
        Self(Box::new(move || nanos(work())))
    }
}

/// Nanoseconds of one unit of each work: medians of runs that take turns, so that what else goes on
/// in the machine meets all of them alike.
pub(crate) fn medians(works: &mut [Work<'_>]) -> Vec<f64> {
    let mut runs = vec![Vec::with_capacity(RUNS); works.len()];
    for _ in 0..RUNS {
        for (work, runs) in works.iter_mut().zip(&mut runs) {
            runs.push((work.0)());
        }
    }
    runs.into_iter().map(median).collect()
}

/// The median of one work.
pub(crate) fn alone(work: Work<'_>) -> f64 {
    medians(&mut [work])[0]
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn nanos(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// A count as a number to divide by.
pub(crate) fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
