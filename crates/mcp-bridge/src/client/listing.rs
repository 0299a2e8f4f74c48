//! Reading the tools of a server: page by page, entry by entry.

use std::collections::HashSet;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool as WireTool};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Map, Value};

use super::foreign::harmless;

/// Most pages of a list that are read.
const MAX_PAGES: usize = 200;

/// Longest reason of a fault, in characters.
const MAX_REASON: usize = 300;

/// Fault of one entry of a list, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListFault {
    /// Name of the tool, or its place in the list.
    pub(super) tool: String,
    /// Reason of the fault.
    pub(super) reason: String,
}

impl ListFault {
    pub(super) fn new(tool: &str, reason: &str) -> Self {
        Self { tool: harmless(tool, MAX_REASON), reason: harmless(reason, MAX_REASON) }
    }
}

/// The tools that a server listed.
#[derive(Debug, Default)]
pub(super) struct ToolListing {
    /// The valid entries.
    pub(super) tools: Vec<WireTool>,
    /// Entries that cannot be used.
    pub(super) refused: Vec<ListFault>,
    /// Members of valid entries that are left out, and pages that were not read.
    pub(super) notes: Vec<String>,
}

/// Reads the list of a server to its end. A page that cannot be read ends the list; the pages before it count.
pub(super) async fn list_tools(peer: &Peer<RoleClient>) -> Result<ToolListing, ServiceError> {
    let mut listing = ToolListing::default();
    let mut followed = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let next = match peer.send_request(request).await.and_then(|page| listing.take_page(page)) {
            Ok(next) => next,
            Err(error) if cursor.is_none() => return Err(error),
            Err(error) => {
                listing.notes.push(format!("the list is not read to its end: {error}"));
                return Ok(listing);
            }
        };
        let Some(next) = next else { return Ok(listing) };
        if !followed.insert(next.clone()) {
            listing.notes.push(format!("the list ends here: the cursor `{next}` was followed before"));
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.notes.push(format!("the list ends here: it has more than {MAX_PAGES} pages"));
    Ok(listing)
}

impl ToolListing {
    /// Takes a page, and returns the cursor of the next one.
    fn take_page(&mut self, page: ServerResult) -> Result<Option<String>, ServiceError> {
        match page {
            ServerResult::ListToolsResult(page) => {
                self.tools.extend(page.tools);
                Ok(page.next_cursor)
            }
            ServerResult::CustomResult(page) => self.take_odd_page(&page.0),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Takes a page that does not fit the protocol as a whole.
    fn take_odd_page(&mut self, page: &Value) -> Result<Option<String>, ServiceError> {
        let entries = page["tools"].as_array().ok_or(ServiceError::UnexpectedResponse)?;
        for entry in entries {
            let place = format!("#{}", self.tools.len() + self.refused.len() + 1);
            let name = entry["name"].as_str().map_or(place, str::to_owned);
            match lenient_tool(entry) {
                Ok((tool, left_out)) => {
                    self.tools.push(tool);
                    self.notes.extend(left_out.into_iter().map(|member| format!("{name}: {member}")));
                }
                Err(reason) => self.refused.push(ListFault::new(&name, &reason)),
            }
        }
        match &page["nextCursor"] {
            Value::Null => Ok(None),
            Value::String(cursor) => Ok(Some(cursor.clone())),
            other => {
                self.notes.push(format!("the list ends here: the cursor {other} is not a text"));
                Ok(None)
            }
        }
    }
}

/// Reads an entry by its required members; an optional member that does not fit is left out.
fn lenient_tool(entry: &Value) -> Result<(WireTool, Vec<String>), String> {
    let given = entry.as_object().ok_or("it is not an object")?;
    let is_required = |name: &str| matches!(name, "name" | "inputSchema");
    let mut members: Map<String, Value> = given
        .iter()
        .filter(|(name, _)| is_required(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let read =
        |members: &Map<String, Value>| serde_json::from_value::<WireTool>(Value::Object(members.clone()));
    let mut tool = read(&members).map_err(|error| error.to_string())?;
    let mut left_out = Vec::new();
    for (name, value) in given.iter().filter(|(name, value)| !is_required(name) && !value.is_null()) {
        members.insert(name.clone(), value.clone());
        match read(&members) {
            Ok(better) => tool = better,
            Err(error) => {
                members.remove(name);
                left_out.push(format!("`{name}` is left out: {error}"));
                if let ("annotations", Value::Object(hints)) = (name.as_str(), value) {
                    tool = with_hints(&mut members, hints, tool, read);
                }
            }
        }
    }
    Ok((tool, left_out))
}

/// The same tool with those of its hints that fit, each by itself.
fn with_hints(
    members: &mut Map<String, Value>,
    hints: &Map<String, Value>,
    mut tool: WireTool,
    read: impl Fn(&Map<String, Value>) -> serde_json::Result<WireTool>,
) -> WireTool {
    let mut kept = Map::new();
    for (name, value) in hints {
        let mut tried = kept.clone();
        tried.insert(name.clone(), value.clone());
        let before = members.insert("annotations".to_owned(), Value::Object(tried.clone()));
        match read(members) {
            Ok(better) => (tool, kept) = (better, tried),
            Err(_) => _ = before.map(|before| members.insert("annotations".to_owned(), before)),
        }
    }
    members.insert("annotations".to_owned(), Value::Object(kept));
    tool
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_odd_entry_costs_itself() {
        let mut listing = ToolListing::default();
        let page = json!({"nextCursor": "", "tools": [
            {"name": "good", "inputSchema": {}},
            {"name": "bare"},
            {"name": "texts", "inputSchema": "none"},
            17,
            {"name": "hinted", "description": null, "title": 7, "inputSchema": {}, "outputSchema": [],
             "annotations": {"readOnlyHint": true, "idempotentHint": "often", "openWorldHint": false}},
        ]});
        assert_eq!(listing.take_odd_page(&page).unwrap(), Some(String::new()));
        let names: Vec<&str> = listing.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["good", "hinted"]);
        let refused: Vec<&str> = listing.refused.iter().map(|fault| fault.tool.as_str()).collect();
        assert_eq!(refused, ["bare", "texts", "#4"]);
        assert!(listing.refused[0].reason.contains("inputSchema"), "{:?}", listing.refused);
        let hints = listing.tools[1].annotations.as_ref().unwrap();
        assert_eq!(
            (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint),
            (Some(true), None, Some(false))
        );
        assert_eq!(listing.notes.len(), 3, "{:?}", listing.notes);
        assert!(listing.notes.iter().all(|note| note.starts_with("hinted: `")), "{:?}", listing.notes);
    }

    #[test]
    fn a_page_that_is_none_is_an_error() {
        let mut listing = ToolListing::default();
        assert!(listing.take_odd_page(&json!({"tools": "none"})).is_err());
        assert_eq!(listing.take_odd_page(&json!({"tools": [], "nextCursor": 7})).unwrap(), None);
        assert_eq!(listing.notes.len(), 1);
    }
}
