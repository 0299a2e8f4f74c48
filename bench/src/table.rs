//! The rows of the report, one a line as they are measured, in a form that Markdown shows as a table.

#![expect(clippy::print_stdout, reason = "the report is what the program is for")]

/// A figure with its unit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Figure {
    /// Nanoseconds, shown in the unit that reads best.
    Nanos(f64),
    /// Megabytes (10^6) a second.
    Speed(f64),
    /// Bytes, shown as MiB.
    Bytes(f64),
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Nanos(nanos) if nanos < 1e3 => write!(f, "{nanos:.0} ns"),
            Self::Nanos(nanos) if nanos < 1e6 => write!(f, "{:.2} µs", nanos / 1e3),
            Self::Nanos(nanos) => write!(f, "{:.1} ms", nanos / 1e6),
            Self::Speed(speed) if speed < 10.0 => write!(f, "{speed:.2} MB/s"),
            Self::Speed(speed) => write!(f, "{speed:.0} MB/s"),
            Self::Bytes(bytes) => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
        }
    }
}

impl Figure {
    const fn number(self) -> f64 {
        match self {
            Self::Nanos(number) | Self::Speed(number) | Self::Bytes(number) => number,
        }
    }
}

/// What a row should reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// Nothing was set; the row is there to be seen.
    None,
    /// Our figure is no larger.
    AtMost(Figure),
    /// Ours divided by the baseline is no larger: a cost.
    CostAtMost(f64),
    /// Ours divided by the baseline is no smaller: a speed.
    SpeedAtLeast(f64),
}

impl Aim {
    fn reached(self, ours: Figure, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtMost(most) => Some(ours.number() <= most.number()),
            Self::CostAtMost(most) => ratio.map(|ratio| ratio <= most),
            Self::SpeedAtLeast(least) => ratio.map(|ratio| ratio >= least),
        }
    }

    fn text(self) -> String {
        match self {
            Self::None => String::new(),
            Self::AtMost(most) => format!("≤ {most}"),
            Self::CostAtMost(most) => format!("≤ {most} ×"),
            Self::SpeedAtLeast(least) => format!("≥ {least} ×"),
        }
    }
}

/// Begins a table under a heading.
pub(crate) fn begin(heading: &str) {
    println!("\n### {heading}\n");
    println!("| what | ours | baseline | its figure | ratio | aim | |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | --- |");
}

/// A sentence between tables.
pub(crate) fn note(text: &str) {
    println!("\n{text}");
}

/// One line of a list.
pub(crate) fn item(text: &str) {
    println!("- {text}");
}

/// A figure of ours alone.
pub(crate) fn row(what: &str, ours: Figure, aim: Aim) {
    print(what, ours, ("", "", ""), aim, None);
}

/// A figure of ours beside one of a baseline; the ratio is ours divided by the baseline's.
pub(crate) fn against(what: &str, ours: Figure, baseline: (&str, Figure), aim: Aim) {
    let (name, figure) = baseline;
    let ratio = ours.number() / figure.number();
    print(what, ours, (name, &figure.to_string(), &format!("{ratio:.2} ×")), aim, Some(ratio));
}

/// A baseline that cannot do this, or not in reasonable time.
pub(crate) fn without(what: &str, ours: Figure, baseline: &str, why: &str) {
    print(what, ours, (baseline, why, ""), Aim::None, None);
}

fn print(what: &str, ours: Figure, baseline: (&str, &str, &str), aim: Aim, ratio: Option<f64>) {
    let mark = match aim.reached(ours, ratio) {
        Some(true) => "✓",
        Some(false) => "**no**",
        None => "",
    };
    let (name, figure, ratio) = baseline;
    println!("| {what} | {ours} | {name} | {figure} | {ratio} | {} | {mark} |", aim.text());
}
