//! Text to tokens and back.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::quantized::gguf_file::Value;
use candle_core::{Error, Result, bail};
use tokenizers::Tokenizer;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::gguf::{Gguf, whole};

/// Kinds of tokens in a file that are plain text.
const PLAIN: [usize; 2] = [1, 6];

/// The vocabulary of a model. All text is plain to it: a user cannot write a mark of the chat form.
#[derive(Clone)]
pub(crate) struct Vocabulary {
    words: Arc<Words>,
    /// Begins a message.
    pub(crate) start: TokenId,
    /// Ends a message.
    pub(crate) end: TokenId,
    /// Ends a text, where there is such a token.
    pub(crate) end_of_text: Option<TokenId>,
}

struct Words {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Words {
    fn tokens(&self, text: &str) -> Vec<TokenId> {
        // Byte-level vocabularies have tokens for every text.
        self.tokenizer.encode_fast(text, false).map(|coded| coded.get_ids().to_vec()).unwrap_or_default()
    }
}

impl TokenizerEnv for Words {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.tokens(text))
    }
}

impl Vocabulary {
    pub(crate) fn read(file: &Gguf) -> Result<Self> {
        match file.text("tokenizer.ggml.model") {
            Some("gpt2") => {}
            other => bail!("vocabularies of the kind {other:?} are not known here, only `gpt2`"),
        }
        let texts = file.texts("tokenizer.ggml.tokens")?;
        let kinds: Vec<usize> = match file.value("tokenizer.ggml.token_type") {
            Some(Value::Array(kinds)) => kinds.iter().map(|kind| whole(kind).unwrap_or(0)).collect(),
            Some(_) | None => bail!("it has no list `tokenizer.ggml.token_type`"),
        };
        let id =
            |text: &str| texts.iter().position(|known| *known == text).and_then(|at| u32::try_from(at).ok());
        let (Some(start), Some(end)) = (id("<|im_start|>"), id("<|im_end|>")) else {
            bail!("only the chat form with <|im_start|> and <|im_end|> is known here");
        };
        let bytes = bytes_of_letters();
        let words: Vec<Vec<u8>> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let is_plain = kinds.get(at).is_some_and(|kind| PLAIN.contains(kind));
                let plain =
                    is_plain.then(|| text.chars().map(|letter| bytes.get(&letter).copied()).collect());
                plain.flatten().unwrap_or_else(|| {
                    let mark = [TokTrie::SPECIAL_TOKEN_MARKER];
                    mark.iter().copied().chain(text.bytes()).collect()
                })
            })
            .collect();
        let count = u32::try_from(words.len()).map_err(Error::wrap)?;
        let trie = TokTrie::from(&TokRxInfo::new(count, end), &words);
        let end_of_text = id("<|endoftext|>").filter(|other| *other != end);
        let words = Arc::new(Words { tokenizer: tokenizer(file, &texts)?, trie });
        Ok(Self { words, start, end, end_of_text })
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.words.trie.vocab_size()
    }

    /// The tokens of a text.
    pub(crate) fn tokens(&self, text: &str) -> Vec<TokenId> {
        self.words.tokens(text)
    }

    /// Bytes of a token; empty for special tokens. They may end inside of a character.
    pub(crate) fn bytes(&self, token: TokenId) -> &[u8] {
        if self.words.trie.is_special_token(token) { &[] } else { self.words.trie.token(token) }
    }

    /// The same for the reader of grammars.
    pub(crate) fn environment(&self) -> TokEnv {
        Arc::clone(&self.words) as TokEnv
    }
}

fn tokenizer(file: &Gguf, texts: &[&str]) -> Result<Tokenizer> {
    let vocabulary: HashMap<String, u32> =
        texts.iter().zip(0..).map(|(text, id)| ((*text).to_owned(), id)).collect();
    let merges = file.texts("tokenizer.ggml.merges")?;
    let merges = merges.into_iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => bail!("`{merge}` joins no two tokens"),
    });
    let vocabulary: tokenizers::models::bpe::Vocab = vocabulary.into_iter().collect();
    let pairs = BPE::builder().vocab_and_merges(vocabulary, merges.collect::<Result<Vec<_>>>()?);
    let mut tokenizer = Tokenizer::new(pairs.build().map_err(Error::msg)?);
    let bytes: PreTokenizerWrapper = ByteLevel::new(false, true, true).into();
    let before = match file.text("tokenizer.ggml.pre") {
        Some("smollm") => {
            let digits: PreTokenizerWrapper = Digits::new(true).into();
            Sequence::new(vec![digits, bytes]).into()
        }
        Some("gpt-2") | None => bytes,
        // A guess would give wrong tokens, and answers that are worse for no visible reason.
        Some(other) => bail!("texts cut in the way `{other}` are not known here"),
    };
    tokenizer.with_pre_tokenizer(Some(before));
    Ok(tokenizer)
}

/// The letters by which byte-level vocabularies write bytes: printable ones stand for themselves, the others follow from 256.
fn bytes_of_letters() -> HashMap<char, u8> {
    let is_own = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..=255).filter(|&byte| !is_own(byte));
    let own = (0..=255).filter(|&byte| is_own(byte)).map(|byte| (char::from(byte), byte));
    own.chain(others.zip(256_u32..).filter_map(|(byte, letter)| Some((char::from_u32(letter)?, byte))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_letter() {
        let letters = bytes_of_letters();
        assert_eq!(letters.len(), 256);
        assert_eq!(letters[&'a'], b'a');
        assert_eq!(letters[&'Ġ'], b' ');
        assert_eq!(letters[&'Ċ'], b'\n');
    }
}
