//! Files beside a description that its references lead to.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::fields::escaped;

/// Member of the document that holds the files.
const FILES: &str = "x-weft-files";

/// Most files that are read.
const MAX_FILES: usize = 200;

/// Returns the description with the files that its references lead to inside it. `read` gives the file of a path relative
/// to the description, which never leads out of its folder; a reference to a file that is not given stays as it is.
pub fn with_files_beside(mut document: Value, mut read: impl FnMut(&str) -> Option<Value>) -> Value {
    let mut asked = HashSet::new();
    let mut wanted = Vec::new();
    redirect(&mut document, "", &mut wanted);
    let mut files = Map::new();
    while let Some(path) = wanted.pop() {
        if asked.len() == MAX_FILES || !asked.insert(path.clone()) {
            continue;
        }
        if let Some(mut file) = read(&path) {
            redirect(&mut file, &path, &mut wanted);
            files.insert(path, file);
        }
    }
    let unread: Vec<String> = asked.into_iter().filter(|path| !files.contains_key(path)).collect();
    let mut document = match (document, files.is_empty()) {
        (Value::Object(mut members), false) => {
            members.insert(FILES.to_owned(), Value::Object(files));
            Value::Object(members)
        }
        (document, _) => document,
    };
    unread.iter().for_each(|path| restore(&mut document, path));
    document
}

/// Beginning of the references into a file.
fn place(path: &str) -> String {
    format!("#/{FILES}/{}", escaped(path).replace('%', "%25"))
}

/// Lets the references of a file lead into the document; the paths of the files are added to the wanted ones.
fn redirect(value: &mut Value, own: &str, wanted: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                let (file, fragment) = reference.split_once('#').unwrap_or((reference.as_str(), ""));
                let target = if file.is_empty() { Some(own.to_owned()) } else { relative(own, file) };
                if let Some(path) = target.filter(|path| !path.is_empty()) {
                    *reference = format!("{}{fragment}", place(&path));
                    wanted.push(path);
                }
            }
            members.values_mut().for_each(|member| redirect(member, own, wanted));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, own, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gives the references to a file that was not read their old form, relative to the description.
fn restore(value: &mut Value, path: &str) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(fragment) = reference.strip_prefix(&place(path))
                && (fragment.is_empty() || fragment.starts_with('/'))
            {
                *reference = if fragment.is_empty() { path.to_owned() } else { format!("{path}#{fragment}") };
            }
            members.values_mut().for_each(|member| restore(member, path));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restore(item, path)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The path of a file that another one names; `None` where it leads out of the folder of the description.
fn relative(own: &str, file: &str) -> Option<String> {
    let file = percent_decode_str(file).decode_utf8().ok()?;
    if file.contains([':', '\\', '\0']) || file.starts_with('/') {
        return None;
    }
    let mut steps: Vec<&str> = own.split('/').collect();
    steps.pop();
    for step in file.split('/') {
        match step {
            "" | "." => {}
            ".." => _ = steps.pop()?,
            step => steps.push(step),
        }
    }
    Some(steps.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_beside_are_taken_in_and_others_stay() {
        let document = json!({"a": {"$ref": "./parts/x y.json#/b"}, "b": {"$ref": "#/a"}, "c": {"$ref": "../out.json"},
            "d": {"$ref": "https://a.test/x.json"}, "e": {"$ref": "gone.json#/q"}});
        let read = |path: &str| match path {
            "parts/x y.json" => Some(json!({"b": {"$ref": "#/own"}, "own": {"$ref": "../more.json"}})),
            "more.json" => Some(json!({"type": "string"})),
            _ => None,
        };
        let read = with_files_beside(document, read);
        assert_eq!(read["a"]["$ref"], "#/x-weft-files/parts~1x y.json/b");
        assert_eq!(read["b"]["$ref"], "#/a");
        assert_eq!(read["c"]["$ref"], "../out.json");
        assert_eq!(read["d"]["$ref"], "https://a.test/x.json");
        assert_eq!(read["e"]["$ref"], "gone.json#/q");
        let files = &read["x-weft-files"];
        assert_eq!(files["parts/x y.json"]["b"]["$ref"], "#/x-weft-files/parts~1x y.json/own");
        assert_eq!(files["parts/x y.json"]["own"]["$ref"], "#/x-weft-files/more.json");
        assert_eq!(files["more.json"], json!({"type": "string"}));
    }
}
