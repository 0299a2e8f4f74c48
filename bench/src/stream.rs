//! Reading a reply that arrives in pieces of four bytes, against the peers that stream.

use anyhow::{Context, Result};

use crate::measure::{Work, count, medians, timed};
use crate::read::{Reader, check, decode_in_pieces, peers, tools};
use crate::table::{Aim, Figure, against, begin, note, row, without};
use crate::texts::{Kind, action, value};

/// About a token of a model.
const PIECE: usize = 4;
const SIZES: [(&str, usize); 4] =
    [("1 KB", 1_000), ("10 KB", 10_000), ("100 KB", 100_000), ("1 MB", 1_000_000)];
/// A peer that would need longer than this for one text is left out of that size.
const PATIENCE_NANOS: f64 = 1.5e9;

/// One table, with a row on flatness for each kind of text.
pub(crate) fn run() -> Result<()> {
    begin("Reading in pieces of four bytes, arguments typed");
    let peers = peers();
    let best = best_per_size(&peers);
    for kind in Kind::ALL {
        let mut costs = Vec::new();
        for (index, (size_name, size)) in SIZES.into_iter().enumerate() {
            let what = format!("{}, {size_name}, a piece", kind.name());
            costs.push(piece_cost(kind, size)?);
            report(&what, costs[index], best[index].as_ref());
        }
        for (size, (size_name, _)) in costs.iter().zip(SIZES).take(2) {
            let what = format!("{}, 1 MB, a piece", kind.name());
            let base = format!("ours, {size_name}");
            against(&what, Figure::Nanos(costs[3]), (&base, Figure::Nanos(*size)), Aim::CostAtMost(1.2));
        }
    }
    note("A peer that would need more than 1.5 s for one text is left out of that size.");
    Ok(())
}

fn piece_cost(kind: Kind, size: usize) -> Result<f64> {
    let tools = tools()?;
    let value = value(kind, size);
    let text = action(kind, &value);
    check(decode_in_pieces(&tools, &text, PIECE), &value).context("ours")?;
    let nanos = medians(&mut [Work::repeated(|| decode_in_pieces(&tools, &text, PIECE))])[0];
    Ok(nanos / pieces(&text))
}

fn pieces(text: &str) -> f64 {
    count(text.len().div_ceil(PIECE))
}

/// The peer that needs least for a piece, by size.
type Best = Option<(&'static str, f64)>;

fn report(what: &str, ours: f64, best: Option<&(&'static str, f64)>) {
    row(what, Figure::Nanos(ours), Aim::AtMost(Figure::Nanos(66.0)));
    match best {
        // Speeds, so that the ratio says how many times faster.
        Some((name, nanos)) => against(what, speed(ours), (name, speed(*nanos)), Aim::SpeedAtLeast(6.0)),
        None => without(what, speed(ours), "peers", "none in time"),
    }
}

fn speed(nanos_a_piece: f64) -> Figure {
    Figure::Speed(count(PIECE) / nanos_a_piece * 1e3)
}

fn best_per_size(peers: &[Box<dyn Reader>]) -> Vec<Best> {
    let mut best: Vec<Best> = vec![None; SIZES.len()];
    for peer in peers {
        // From size to size the cost grows at least tenfold, and a hundredfold where it is quadratic.
        let mut last = 0.0;
        for (index, (_, size)) in SIZES.into_iter().enumerate() {
            if last * 10.0 > PATIENCE_NANOS {
                break;
            }
            let value = value(Kind::Raw, size);
            let text = peer.text(&value);
            let first = timed(|| peer.pieces(&text, PIECE)).as_secs_f64() * 1e9;
            if first > PATIENCE_NANOS || check(peer.pieces(&text, PIECE), &value).is_err() {
                break;
            }
            last = medians(&mut [Work::repeated(|| peer.pieces(&text, PIECE))])[0];
            let nanos = last / pieces(&text);
            if best[index].as_ref().is_none_or(|(_, least)| nanos < *least) {
                best[index] = Some((peer.name(), nanos));
            }
        }
    }
    best
}
