//! The page of a chat, and the script that puts it on a site.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, header};
use weft_project::{WidgetLanguage, WidgetSettings};

/// Adds a button and the chat to the page that holds it.
const EMBED: &str = include_str!("embed.js");

/// The page, which may stand in frames of the widget's sites.
pub(super) fn page(title: &str, widget: &WidgetSettings) -> Response {
    let language = match widget.language {
        Some(WidgetLanguage::Zh) => "zh-CN",
        Some(WidgetLanguage::En) | None => "en",
    };
    let html = format!(
        "<!doctype html>\n<html lang=\"{language}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <link rel=\"stylesheet\" href=\"../assets/widget.css\">\n</head>\n\
         <body><div id=\"widget\"></div><script type=\"module\" src=\"../assets/widget.js\"></script></body>\n</html>\n",
        escaped(title)
    );
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'self' {}",
        sources(&widget.origins)
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, html).into_response()
}

/// The script for other sites, which holds nothing of the project.
pub(super) fn script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
    ];
    (headers, EMBED).into_response()
}

/// Origins as a policy takes them: what could end the list or begin another rule is left out.
fn sources(origins: &[String]) -> String {
    let is_source = |origin: &&String| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || ":/.-*[]".contains(c);
        !origin.is_empty() && origin.chars().all(is_fine)
    };
    let listed: Vec<&str> = origins.iter().filter(is_source).map(String::as_str).collect();
    listed.join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_settings_ends_a_rule_or_an_element() {
        let origins = ["https://shop.example".to_owned(), "x; script-src *".to_owned(), String::new()];
        assert_eq!(sources(&origins), "https://shop.example");
        assert_eq!(escaped("a <b> & \"c\""), "a &lt;b&gt; &amp; &quot;c&quot;");
    }
}
