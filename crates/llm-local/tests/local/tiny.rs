//! A model of two layers and chance numbers, written by the test itself: it knows nothing, and says what its grammar lets it.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

/// Width of the model.
const WIDTH: usize = 32;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const INNER: usize = 48;
const LAYERS: usize = 2;

/// Pairs of letters that are one token: some forced texts have several ways to be cut.
const MERGES: [&str; 6] = ["i t", "Ċ Ġ", "Ġ Ġ", "< /", "> Ċ", "it e"];

/// The letters by which bytes are written.
fn letters() -> Vec<String> {
    let is_own = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 256_u32;
    (0..=255_u8)
        .map(|byte| {
            if is_own(byte) {
                return char::from(byte).to_string();
            }
            next += 1;
            char::from_u32(next - 1).unwrap().to_string()
        })
        .collect()
}

/// Chance numbers around zero.
struct Numbers(u64);

impl Numbers {
    fn tensor(&mut self, rows: usize, columns: usize, spread: f32) -> QTensor {
        let numbers = (0..rows * columns).map(|_| {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
            let share = (self.0 >> 40) as f32 / (1_u32 << 24) as f32;
            (share - 0.5) * spread
        });
        let tensor = Tensor::from_vec(numbers.collect::<Vec<_>>(), (rows, columns), &Device::Cpu).unwrap();
        QTensor::quantize(&tensor, GgmlDType::F32).unwrap()
    }

    fn ones(width: usize) -> QTensor {
        let tensor = Tensor::ones(width, candle_core::DType::F32, &Device::Cpu).unwrap();
        QTensor::quantize(&tensor, GgmlDType::F32).unwrap()
    }
}

/// Differences of the file from a good one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defects {
    pub(crate) architecture: Option<&'static str>,
    pub(crate) cut: Option<&'static str>,
    pub(crate) without_marks: bool,
}

/// Writes the model; `seed` chooses its numbers.
pub(crate) fn write_model(path: &Path, seed: u64, defects: Defects) {
    let text = |text: &str| Value::String(text.to_owned());
    let mut tokens = letters();
    tokens.extend(MERGES.map(|merge| merge.replace(' ', "")));
    let plain = tokens.len();
    let marks = if defects.without_marks { ["<a>", "<b>"] } else { ["<|im_start|>", "<|im_end|>"] };
    tokens.extend(marks.map(str::to_owned));
    let kinds = (0..tokens.len()).map(|at| Value::I32(if at < plain { 1 } else { 3 }));
    let number = |number: usize| Value::U32(u32::try_from(number).unwrap());
    let metadata = [
        ("general.architecture", text(defects.architecture.unwrap_or("llama"))),
        ("llama.embedding_length", number(WIDTH)),
        ("llama.attention.head_count", number(HEADS)),
        ("llama.attention.head_count_kv", number(KV_HEADS)),
        ("llama.block_count", number(LAYERS)),
        ("llama.context_length", number(4_096)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text(defects.cut.unwrap_or("smollm"))),
        ("tokenizer.ggml.tokens", Value::Array(tokens.iter().map(|token| text(token)).collect())),
        ("tokenizer.ggml.token_type", Value::Array(kinds.collect())),
        ("tokenizer.ggml.merges", Value::Array(MERGES.iter().map(|merge| text(merge)).collect())),
    ];
    let mut numbers = Numbers(seed);
    let head = WIDTH / HEADS;
    let mut tensors: Vec<(String, QTensor)> = vec![
        ("token_embd.weight".into(), numbers.tensor(tokens.len(), WIDTH, 2.0)),
        ("output_norm.weight".into(), Numbers::ones(WIDTH)),
    ];
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        tensors.push((name("attn_norm"), Numbers::ones(WIDTH)));
        tensors.push((name("ffn_norm"), Numbers::ones(WIDTH)));
        for (part, rows, columns) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", KV_HEADS * head, WIDTH),
            ("attn_v", KV_HEADS * head, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ] {
            tensors.push((name(part), numbers.tensor(rows, columns, 0.5)));
        }
    }
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}
