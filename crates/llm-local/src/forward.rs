//! The model itself: tokens in, a number for each possible next token out.

use candle_core::{D, DType, Device, Result, Tensor, bail};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope_i;

use crate::gguf::{Gguf, Shape};

/// Tokens that are read at once; more would only take more memory.
const PIECE: usize = 128;

/// Places that the cache has at first; it doubles when they are full.
const FIRST_PLACES: usize = 512;

struct Layer {
    attention_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    inner_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    /// Keys and values of the tokens read: (heads, places, width of a head).
    keys: Tensor,
    values: Tensor,
}

/// A transformer of the llama family with the tokens that it has read.
pub(crate) struct Transformer {
    shape: Shape,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// Absent where it is the embedding.
    head: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    /// Places that the cache has.
    places: usize,
    read: Vec<u32>,
}

/// `x` times a matrix that lies as files have it: one row for each output.
fn times(x: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    x.matmul(&matrix.t()?)
}

impl Transformer {
    /// Loads all tensors. The context is the file's, or `most` where that is less.
    pub(crate) fn load(file: &mut Gguf, most: usize) -> Result<Self> {
        let mut shape = file.shape()?;
        shape.context = shape.context.min(most);
        let places = FIRST_PLACES.min(shape.context);
        let mut layers = Vec::with_capacity(shape.layers);
        for index in 0..shape.layers {
            let mut tensor = |name: &str| file.tensor(&format!("blk.{index}.{name}.weight"));
            layers.push(Layer {
                attention_norm: tensor("attn_norm")?,
                query: tensor("attn_q")?,
                key: tensor("attn_k")?,
                value: tensor("attn_v")?,
                output: tensor("attn_output")?,
                inner_norm: tensor("ffn_norm")?,
                gate: tensor("ffn_gate")?,
                up: tensor("ffn_up")?,
                down: tensor("ffn_down")?,
                keys: empty(&shape, places)?,
                values: empty(&shape, places)?,
            });
        }
        let head = if file.has("output.weight") { Some(file.tensor("output.weight")?) } else { None };
        let slowed =
            if file.has("rope_freqs.weight") { Some(file.tensor("rope_freqs.weight")?) } else { None };
        let (cos, sin) = turns(&shape, slowed.as_ref())?;
        let embedding = file.tensor("token_embd.weight")?;
        let norm = file.tensor("output_norm.weight")?;
        Ok(Self { shape, embedding, layers, norm, head, cos, sin, places, read: Vec::new() })
    }

    /// Most tokens that it holds.
    pub(crate) const fn context(&self) -> usize {
        self.shape.context
    }

    /// Tokens read so far.
    pub(crate) fn read(&self) -> &[u32] {
        &self.read
    }

    /// Number of tokens in the vocabulary.
    pub(crate) fn vocabulary(&self) -> Result<usize> {
        self.embedding.dim(0)
    }

    /// Forgets all tokens but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.read.truncate(count);
    }

    /// Reads up to [`PIECE`] tokens and returns their number; the logits after the last one once all are read.
    pub(crate) fn read_tokens(&mut self, tokens: &[u32]) -> Result<(usize, Option<Vec<f32>>)> {
        let piece = &tokens[..tokens.len().min(PIECE)];
        let is_last = piece.len() == tokens.len();
        let end = self.read.len() + piece.len();
        if end > self.shape.context {
            bail!("the context of {} tokens is full", self.shape.context);
        }
        self.make_room(end)?;
        let hidden = self.hidden(piece)?;
        self.read.extend_from_slice(piece);
        if !is_last {
            return Ok((piece.len(), None));
        }
        let last = rms_norm(&hidden.narrow(0, piece.len() - 1, 1)?, &self.norm, self.shape.norm_epsilon)?;
        let numbers = times(&last, self.head.as_ref().unwrap_or(&self.embedding))?;
        Ok((piece.len(), Some(numbers.squeeze(0)?.to_vec1()?)))
    }

    fn make_room(&mut self, end: usize) -> Result<()> {
        if end <= self.places {
            return Ok(());
        }
        let places = end.next_power_of_two().min(self.shape.context);
        let read = self.read.len();
        for layer in &mut self.layers {
            for cache in [&mut layer.keys, &mut layer.values] {
                let larger = empty(&self.shape, places)?;
                if read > 0 {
                    larger.slice_set(&cache.narrow(1, 0, read)?.contiguous()?, 1, 0)?;
                }
                *cache = larger;
            }
        }
        self.places = places;
        Ok(())
    }

    /// One row for each token, behind the last layer.
    fn hidden(&self, tokens: &[u32]) -> Result<Tensor> {
        let (start, len) = (self.read.len(), tokens.len());
        let ids = Tensor::new(tokens, &Device::Cpu)?;
        let cos = self.cos.narrow(0, start, len)?;
        let sin = self.sin.narrow(0, start, len)?;
        let mask = if len > 1 { Some(mask(&self.shape, start, len)?) } else { None };
        let mut rows = self.embedding.index_select(&ids, 0)?;
        for layer in &self.layers {
            let normed = rms_norm(&rows, &layer.attention_norm, self.shape.norm_epsilon)?;
            let attended = attend(&self.shape, layer, &normed, start, (&cos, &sin), mask.as_ref())?;
            rows = (rows + attended)?;
            let normed = rms_norm(&rows, &layer.inner_norm, self.shape.norm_epsilon)?;
            let inner = (silu(&times(&normed, &layer.gate)?)? * times(&normed, &layer.up)?)?;
            rows = (rows + times(&inner, &layer.down)?)?;
        }
        Ok(rows)
    }
}

fn attend(
    shape: &Shape,
    layer: &Layer,
    rows: &Tensor,
    start: usize,
    (cos, sin): (&Tensor, &Tensor),
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    let Shape { heads, kv_heads, head_width, .. } = *shape;
    let len = rows.dim(0)?;
    // (tokens, heads * width) to (1, heads, tokens, width).
    let by_head = |x: Tensor, heads: usize| {
        x.reshape((len, heads, head_width))?.transpose(0, 1)?.contiguous()?.unsqueeze(0)
    };
    let query = rope_i(&by_head(times(rows, &layer.query)?, heads)?, cos, sin)?;
    let key = rope_i(&by_head(times(rows, &layer.key)?, kv_heads)?, cos, sin)?;
    let value = by_head(times(rows, &layer.value)?, kv_heads)?;
    layer.keys.slice_set(&key.squeeze(0)?, 1, start)?;
    layer.values.slice_set(&value.squeeze(0)?, 1, start)?;
    let keys = layer.keys.narrow(1, 0, start + len)?;
    let values = layer.values.narrow(1, 0, start + len)?;
    // Heads that share keys lie next to each other, so none of the keys is copied.
    let query = query.reshape((kv_heads, heads / kv_heads * len, head_width))?;
    #[expect(clippy::cast_precision_loss, reason = "a width is a small number")]
    let scale = 1.0 / (head_width as f64).sqrt();
    let mut scores = (query.matmul(&keys.transpose(1, 2)?)? * scale)?;
    if let Some(mask) = mask {
        scores = scores.broadcast_add(mask)?;
    }
    let attended = softmax_last_dim(&scores)?.matmul(&values)?;
    let attended = attended.reshape((heads, len, head_width))?.transpose(0, 1)?.contiguous()?;
    times(&attended.reshape((len, heads * head_width))?, &layer.output)
}

/// Minus infinity where a token would look at a later one: (tokens of all heads that share keys, tokens so far).
fn mask(shape: &Shape, start: usize, len: usize) -> Result<Tensor> {
    let total = start + len;
    let group = shape.heads / shape.kv_heads;
    let row = |at: usize| (0..total).map(move |seen| if seen > start + at { f32::NEG_INFINITY } else { 0.0 });
    let numbers: Vec<f32> = (0..group).flat_map(|_| (0..len).flat_map(row)).collect();
    Tensor::from_vec(numbers, (group * len, total), &Device::Cpu)
}

fn empty(shape: &Shape, places: usize) -> Result<Tensor> {
    Tensor::zeros((shape.kv_heads, places, shape.head_width), DType::F32, &Device::Cpu)
}

/// Rotation of each pair of numbers at each position.
fn turns(shape: &Shape, slowed: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
    let half = shape.head_width / 2;
    #[expect(clippy::cast_precision_loss, reason = "widths and places are small numbers")]
    let speed = |pair: usize| 1.0 / shape.rope_base.powf(2.0 * pair as f32 / shape.head_width as f32);
    let mut speeds = Tensor::from_vec((0..half).map(speed).collect::<Vec<_>>(), (1, half), &Device::Cpu)?;
    if let Some(slowed) = slowed {
        speeds = speeds.broadcast_div(&slowed.reshape((1, half))?)?;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a context is far below 2^32")]
    let places = Tensor::arange(0, shape.context as u32, &Device::Cpu)?.to_dtype(DType::F32)?;
    let angles = places.reshape((shape.context, 1))?.matmul(&speeds)?;
    debug_assert_eq!(angles.dim(D::Minus1)?, half);
    Ok((angles.cos()?, angles.sin()?))
}
