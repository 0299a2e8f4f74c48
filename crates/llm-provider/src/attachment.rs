//! Images and files in messages.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::ModelInfo;

/// An image or a file that goes with the text of a message.
///
/// For a model without support of its kind, the request holds a note instead, and the text of a text file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attachment {
    /// Media type, such as `image/png`.
    pub mime: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Source of the bytes.
    #[serde(flatten)]
    pub source: AttachmentSource,
}

/// Source of the bytes of an attachment.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentSource {
    /// Here, in Base64.
    Data(Arc<str>),
    /// At an address that the model's server reads. Not every server does.
    Url(String),
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("mime", &self.mime)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AttachmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // An image would fill the screen.
            Self::Data(data) => write!(f, "Data({} characters)", data.len()),
            Self::Url(url) => write!(f, "Url({url:?})"),
        }
    }
}

/// Form in which a request carries an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It goes as it is.
    Whole,
    /// Text that replaces it.
    Text(String),
}

impl Attachment {
    /// Bytes that are at hand.
    #[must_use]
    pub fn from_bytes(mime: impl Into<String>, bytes: &[u8]) -> Self {
        Self::from_base64(mime, STANDARD.encode(bytes))
    }

    /// Bytes that are in Base64 already.
    #[must_use]
    pub fn from_base64(mime: impl Into<String>, data: impl Into<Arc<str>>) -> Self {
        Self { mime: mime.into(), name: None, source: AttachmentSource::Data(data.into()) }
    }

    /// Bytes at an address that the model's server reads; of a `data:` address the bytes themselves.
    #[must_use]
    pub fn from_url(mime: impl Into<String>, url: impl Into<String>) -> Self {
        let url = url.into();
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        if let Some((own, data)) = data {
            let mime = if own.is_empty() { mime.into() } else { own.to_owned() };
            return Self::from_base64(mime, data);
        }
        Self { mime: mime.into(), name: None, source: AttachmentSource::Url(url) }
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Replacement for a model that reads text only: the text of a text file, or a note about the attachment.
    #[must_use]
    pub fn text_in_place(&self) -> String {
        match self.sent_to(&ModelInfo::default()) {
            Sent::Text(text) => text,
            Sent::Whole => self.label(),
        }
    }

    /// Form in which a model of this kind receives the attachment.
    pub(crate) fn sent_to(&self, model: &ModelInfo) -> Sent {
        if (self.mime.starts_with("image/") && model.images)
            || (self.mime == "application/pdf" && model.documents)
        {
            return Sent::Whole;
        }
        match self.as_text() {
            Some(text) => Sent::Text(format!("[{}]\n{text}", self.label())),
            None => Sent::Text(format!("[{}: this model cannot read it]", self.label())),
        }
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("attached: {name}, {}", self.mime),
            None => format!("attached: {}", self.mime),
        }
    }

    /// The text of a text file.
    fn as_text(&self) -> Option<String> {
        let mime = self.mime.split(';').next().unwrap_or_default().trim();
        let is_text = mime.starts_with("text/")
            || matches!(
                mime,
                "application/json" | "application/xml" | "application/yaml" | "application/toml"
            );
        match &self.source {
            AttachmentSource::Data(data) if is_text => String::from_utf8(STANDARD.decode(&**data).ok()?).ok(),
            AttachmentSource::Data(_) | AttachmentSource::Url(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(images: bool, documents: bool) -> ModelInfo {
        ModelInfo { images, documents, ..ModelInfo::default() }
    }

    #[test]
    fn what_a_model_takes_goes_whole_and_the_rest_becomes_text() {
        let image = Attachment::from_bytes("image/png", b"png").with_name("cat.png");
        assert_eq!(image.sent_to(&model(true, false)), Sent::Whole);
        let note = "[attached: cat.png, image/png: this model cannot read it]";
        assert_eq!(image.sent_to(&model(false, true)), Sent::Text(note.into()));
        let document = Attachment::from_url("application/pdf", "https://host.example/a.pdf");
        assert_eq!(document.sent_to(&model(false, true)), Sent::Whole);
        let csv = Attachment::from_bytes("text/csv; charset=utf-8", "a,b".as_bytes());
        assert_eq!(
            csv.sent_to(&model(true, true)),
            Sent::Text("[attached: text/csv; charset=utf-8]\na,b".into())
        );
    }

    #[test]
    fn a_data_address_holds_the_bytes() {
        let image = Attachment::from_url("image/*", "data:image/gif;base64,R0lG");
        assert_eq!(image, Attachment::from_base64("image/gif", "R0lG"));
        assert_eq!(format!("{:?}", image.source), "Data(4 characters)");
    }

    #[test]
    fn it_is_written_with_its_source() {
        let image = Attachment::from_base64("image/gif", "R0lG");
        let written = serde_json::to_value(&image).unwrap();
        assert_eq!(written, serde_json::json!({"mime": "image/gif", "data": "R0lG"}));
        assert_eq!(serde_json::from_value::<Attachment>(written).unwrap(), image);
    }
}
