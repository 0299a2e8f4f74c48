//! quick-xml alone: events, texts joined, entities decoded, nothing checked or typed.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Bytes of text in an XML document; 0 where it is none.
pub(crate) fn quick_xml(text: &str) -> usize {
    let mut reader = Reader::from_str(text);
    let mut value = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Text(text)) => value.push_str(&text),
            Ok(Event::CData(text)) => value.push_str(&text),
            Ok(Event::GeneralRef(name)) => {
                value.push_str(quick_xml::escape::resolve_predefined_entity(&name).unwrap_or_default());
            }
            Ok(Event::Eof) => return value.len(),
            Ok(
                Event::Start(_)
                | Event::End(_)
                | Event::Empty(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_),
            ) => {}
            Err(_) => return 0,
        }
    }
}
