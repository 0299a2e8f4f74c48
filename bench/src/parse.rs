//! Reading whole replies, arguments typed, against quick-xml and the peers.

use anyhow::{Context, Result, ensure};

use crate::measure::{Work, count, medians};
use crate::read::{Reader, check, interpret, peers, quick_xml, tools};
use crate::table::{Aim, Figure, against, begin, item, note};
use crate::texts::{Kind, SIZES, action, value};

/// One table, and a list of what each peer reaches.
pub(crate) fn run() -> Result<()> {
    begin("Reading a whole reply, arguments typed");
    let peers = peers();
    for (size_name, size) in SIZES {
        let (code, page) = (value(Kind::Raw, size), value(Kind::PageEntities, size));
        let (best_code, best_page) = (fastest(&peers, &code)?, fastest(&peers, &page)?);
        for kind in Kind::ALL {
            let (value, best) = match kind {
                Kind::Entities | Kind::Cdata | Kind::Raw => (&code, &best_code),
                Kind::PageEntities => (&page, &best_page),
            };
            compare(&format!("{}, {size_name}", kind.name()), kind, value, best)?;
        }
    }
    list_peers(&peers);
    Ok(())
}

/// A peer and the nanoseconds it needs.
struct Best {
    name: String,
    nanos: f64,
}

fn compare(what: &str, kind: Kind, value: &str, best: &Best) -> Result<()> {
    let tools = tools()?;
    let text = action(kind, value);
    let twin = action(Kind::Entities, value);
    let read = |text: &str| interpret(&tools, &protocol_action::parse(text, tools.as_ref()));
    check(read(&text), value).context("ours")?;
    ensure!(quick_xml(&twin) > value.len(), "quick-xml does not read the text");
    let figures = medians(&mut [
        Work::repeated(|| read(&text)),
        Work::repeated(|| quick_xml(&text)),
        Work::repeated(|| quick_xml(&twin)),
    ]);
    // The speed is that of the value: all forms carry the same one.
    let speed = |nanos: f64| Figure::Speed(count(value.len()) / nanos * 1e3);
    let ours = speed(figures[0]);
    let (same, entities) = (("quick-xml, same text", speed(figures[1])), speed(figures[2]));
    match kind {
        Kind::Entities | Kind::PageEntities => against(what, ours, same, Aim::SpeedAtLeast(0.7)),
        Kind::Cdata => {
            against(what, ours, same, Aim::None);
            against(what, ours, ("quick-xml, entities", entities), Aim::SpeedAtLeast(1.8));
        }
        Kind::Raw => against(what, ours, ("quick-xml, entities", entities), Aim::SpeedAtLeast(0.7)),
    }
    against(what, ours, (&best.name, speed(best.nanos)), Aim::SpeedAtLeast(17.0));
    Ok(())
}

fn fastest(peers: &[Box<dyn Reader>], value: &str) -> Result<Best> {
    let all = costs(peers, value);
    let best = all.into_iter().filter_map(Result::ok).min_by(|a, b| a.nanos.total_cmp(&b.nanos));
    best.context("no peer reads the value")
}

/// What each peer needs; one that reads something else is an error, not a figure.
fn costs(peers: &[Box<dyn Reader>], value: &str) -> Vec<Result<Best>> {
    let cost = |peer: &dyn Reader| {
        let text = peer.text(value);
        check(peer.whole(&text), value).with_context(|| peer.name().to_owned())?;
        let nanos = medians(&mut [Work::repeated(|| peer.whole(&text))])[0];
        Ok(Best { name: peer.name().to_owned(), nanos })
    };
    peers.iter().map(|peer| cost(peer.as_ref())).collect()
}

fn list_peers(peers: &[Box<dyn Reader>]) {
    let (size_name, size) = SIZES[1];
    let value = value(Kind::Raw, size);
    note(&format!("Peers, code of {size_name} in their own form:\n"));
    for cost in costs(peers, &value) {
        match cost {
            Ok(best) => {
                item(&format!("{}: {}", best.name, Figure::Speed(count(value.len()) / best.nanos * 1e3)));
            }
            Err(error) => item(&format!("{error:#}")),
        }
    }
}
