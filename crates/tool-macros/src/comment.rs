//! The comment of a function, taken apart.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Parsed doc comment of a tool function.
#[derive(Default)]
pub(crate) struct Comment {
    /// Description of the function.
    pub(crate) description: String,
    /// Descriptions of parameters, in order.
    pub(crate) parameters: Vec<Described>,
}

/// A line ``* `name` - text``.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Comment {
    /// Reads the doc attributes of an item.
    pub(crate) fn read(attributes: &[Attribute]) -> Self {
        let mut comment = Self::default();
        let mut lines: Vec<String> = Vec::new();
        let mut in_parameter = false;
        for (line, span) in attributes.iter().filter_map(doc_text) {
            for line in line.lines().chain(line.is_empty().then_some("")) {
                let text = line.trim();
                if let Some((name, text)) = described(text) {
                    comment.parameters.push(Described { name: name.to_owned(), text: text.to_owned(), span });
                    in_parameter = true;
                } else if in_parameter && line.starts_with("  ") && !text.is_empty() {
                    if let Some(last) = comment.parameters.last_mut() {
                        last.text.push(' ');
                        last.text.push_str(text);
                    }
                } else {
                    in_parameter = false;
                    lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
                }
            }
        }
        lines.join("\n").trim().clone_into(&mut comment.description);
        comment
    }
}

/// The text of a doc attribute.
fn doc_text(attribute: &Attribute) -> Option<(String, Span)> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("doc").then(|| (text.value(), attribute.span()))
}

/// ``* `name` - text``, with `*` or `-` in front and `-`, `:` or a dash between.
fn described(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix(['*', '-'])?.trim_start().strip_prefix('`')?;
    let (name, rest) = rest.split_once('`')?;
    let text = rest.trim_start().trim_start_matches(['-', '–', '—', ':']).trim();
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some((name, text))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn lines_that_describe_parameters_are_taken_out() {
        let function: syn::ItemFn = parse_quote! {
            /// Current weather.
            ///
            /// Only of cities.
            /// * `city` - name as a person
            ///   would say it
            /// - `day`: which day
            /// * a point of its own
            fn f() {}
        };
        let comment = Comment::read(&function.attrs);
        assert_eq!(comment.description, "Current weather.\n\nOnly of cities.\n* a point of its own");
        let parameters: Vec<_> =
            comment.parameters.iter().map(|described| (&*described.name, &*described.text)).collect();
        assert_eq!(parameters, [("city", "name as a person would say it"), ("day", "which day")]);
    }
}
