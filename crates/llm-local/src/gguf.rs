//! GGUF files: the shape of the model, its vocabulary, its tensors.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Result, Tensor, bail};

/// Models whose numbers would fill more memory than this are refused, in bytes of 32-bit weights.
const MAX_BYTES: usize = 16 << 30;

/// Largest size that a file may state: of a context, a layer, a head.
const MAX_SIZE: usize = 1 << 20;

/// An open file.
pub(crate) struct Gguf {
    content: Content,
    file: BufReader<File>,
}

/// The shape of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
    pub(crate) context: usize,
    pub(crate) norm_epsilon: f32,
    pub(crate) rope_base: f32,
}

impl Gguf {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let content = Content::read(&mut file)?;
        let counts = content
            .tensor_infos
            .values()
            .map(|info| info.shape.dims().iter().fold(1_usize, |count, width| count.saturating_mul(*width)));
        let numbers = counts.fold(0_usize, usize::saturating_add);
        if numbers > MAX_BYTES / 4 {
            bail!("it holds {numbers} numbers: too many for a model in the process");
        }
        Ok(Self { content, file })
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.to_string().ok().map(String::as_str)
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let Some(Value::Array(values)) = self.value(key) else { bail!("it has no list `{key}`") };
        values.iter().map(|value| value.to_string().map(String::as_str)).collect()
    }

    /// A whole number, in whatever type it stands there.
    pub(crate) fn whole(&self, key: &str) -> Option<usize> {
        self.value(key).and_then(whole)
    }

    fn decimal(&self, key: &str) -> Option<f32> {
        match self.value(key)? {
            Value::F32(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn shape(&self) -> Result<Shape> {
        match self.text("general.architecture") {
            Some("llama") => {}
            Some(other) => bail!("models of the kind `{other}` are not known here, only `llama`"),
            None => bail!("it does not say what kind of model it holds"),
        }
        let needed = |key: &str| match self.whole(&format!("llama.{key}")) {
            // Numbers of a file become sizes here.
            Some(number) if number > MAX_SIZE => bail!("`llama.{key}` is {number}, more than {MAX_SIZE}"),
            Some(number) if number > 0 => Ok(number),
            _ => bail!("`llama.{key}` is missing"),
        };
        let (width, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
        let kv_heads =
            self.whole("llama.attention.head_count_kv").filter(|&count| count > 0).unwrap_or(heads);
        if width % heads != 0 || heads % kv_heads != 0 {
            bail!("{heads} heads, {kv_heads} of keys, do not fit a width of {width}");
        }
        let head_width = self.whole("llama.attention.key_length").unwrap_or(width / heads);
        if head_width > width {
            bail!("heads of {head_width} numbers do not fit a width of {width}");
        }
        if self.whole("llama.rope.dimension_count").is_some_and(|turned| turned != head_width) {
            bail!("only a part of each head is turned, which is not known here");
        }
        Ok(Shape {
            layers: needed("block_count")?,
            heads,
            kv_heads,
            head_width,
            context: needed("context_length")?,
            norm_epsilon: self.decimal("llama.attention.layer_norm_rms_epsilon").unwrap_or(1e-5),
            rope_base: self.decimal("llama.rope.freq_base").unwrap_or(10_000.0),
        })
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    /// A tensor as numbers of 32 bits.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Tensor> {
        let device = Device::Cpu;
        self.content.tensor(&mut self.file, name, &device)?.dequantize(&device)
    }
}

pub(crate) fn whole(value: &Value) -> Option<usize> {
    let number = match value {
        Value::U8(number) => u64::from(*number),
        Value::U16(number) => u64::from(*number),
        Value::U32(number) => u64::from(*number),
        Value::U64(number) => *number,
        Value::I32(number) => u64::try_from(*number).ok()?,
        Value::I64(number) => u64::try_from(*number).ok()?,
        _ => return None,
    };
    usize::try_from(number).ok()
}
