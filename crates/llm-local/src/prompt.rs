//! A conversation as the tokens of a prompt.

use llm_provider::Message;

use crate::vocabulary::Vocabulary;

/// The conversation in the chat form, with the beginning of the answer behind it.
pub(crate) fn tokens(messages: &[Message], vocabulary: &Vocabulary) -> Vec<u32> {
    let line = vocabulary.tokens("\n");
    let mut tokens = Vec::new();
    for message in messages {
        let (role, text) = said(message);
        tokens.push(vocabulary.start);
        tokens.extend(vocabulary.tokens(&format!("{role}\n{text}")));
        tokens.push(vocabulary.end);
        tokens.extend(&line);
    }
    tokens.push(vocabulary.start);
    tokens.extend(vocabulary.tokens("assistant\n"));
    tokens
}

fn said(message: &Message) -> (&'static str, String) {
    match message {
        Message::System { text } => ("system", text.clone()),
        Message::User { text, attachments } => {
            let parts = std::iter::once(text.clone()).filter(|text| !text.is_empty());
            let parts = parts.chain(attachments.iter().map(llm_provider::Attachment::text_in_place));
            ("user", parts.collect::<Vec<_>>().join("\n\n"))
        }
        Message::Assistant { text, .. } => ("assistant", text.clone()),
        // Calls have no native form here, so there are no native results either.
        Message::Tool { text, .. } => ("user", text.clone()),
    }
}
