//! Knowledge of the offered tools that the reader needs: which exist, which parameters they declare, and
//! which values are plain text.

use std::collections::HashMap;

/// A handle for one shape inside one [`Vocabulary`]; meaningless in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// Written form of the value of a parameter, field or item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A declared string, also one that may be something else besides (`["string", "null"]`,
    /// `["integer", "string"]`, an enum of strings). Its value is raw: tags and comments are data.
    Text,
    /// A number, boolean, null or an enum of such: never child elements.
    Scalar,
    /// Nothing is declared, or a union that the reader cannot decide: child elements when the value
    /// begins with a tag, otherwise text.
    Any,
    /// An array: child elements, each an item, or JSON text, or a bare value.
    List {
        /// The shape of each item.
        item: ShapeId,
    },
    /// An object: child elements looked up by [`Vocabulary::field`], or JSON text.
    Object,
}

/// The offered tools as the reader sees them. Lookups should cost about the same for any number of
/// tools and fields (a hash map): the reader asks for every tag inside a value.
///
/// Resolving wire names, canonical ids and folded spellings is the implementer's job; a tag that
/// resolves to nothing is an unknown tool, whose element is read structurally.
///
/// ```
/// use protocol_action::{Shape, StaticVocabulary, Vocabulary};
///
/// let tools = StaticVocabulary::builder().tool("read_file", |tool| tool.text("path").scalar("limit")).build();
/// let parameters = tools.tool("read_file").unwrap();
/// let path = tools.field(parameters, "path").unwrap();
/// assert_eq!(tools.shape(path), Shape::Text);
/// assert!(tools.field(parameters, "mode").is_none());
/// ```
pub trait Vocabulary: Send + Sync {
    /// The parameters of the tool that this tag or name stands for: the id of a [`Shape::Object`].
    fn tool(&self, tag: &str) -> Option<ShapeId>;

    /// The shape behind an id that this vocabulary handed out.
    fn shape(&self, id: ShapeId) -> Shape;

    /// The declared field of an object, by its exact name (or wire name). `None` for an undeclared
    /// name and for shapes that are not objects.
    fn field(&self, object: ShapeId, name: &str) -> Option<ShapeId>;

    /// The name of a tool's one required parameter, if that is a string: text alone in a call is its value.
    fn only_text(&self, _tool: ShapeId) -> Option<&str> {
        None
    }
}

/// Knows nothing: every element is read structurally.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVocabulary;

impl Vocabulary for NoVocabulary {
    fn tool(&self, _tag: &str) -> Option<ShapeId> {
        None
    }

    fn shape(&self, _id: ShapeId) -> Shape {
        Shape::Any
    }

    fn field(&self, _object: ShapeId, _name: &str) -> Option<ShapeId> {
        None
    }
}

/// A vocabulary written by hand, for callers without schemas.
#[derive(Debug, Clone, Default)]
pub struct StaticVocabulary {
    tools: HashMap<String, ShapeId>,
    shapes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    shape: Shape,
    fields: HashMap<String, ShapeId>,
}

impl StaticVocabulary {
    /// Starts an empty vocabulary.
    pub fn builder() -> StaticVocabularyBuilder {
        StaticVocabularyBuilder::default()
    }
}

impl Vocabulary for StaticVocabulary {
    fn tool(&self, tag: &str) -> Option<ShapeId> {
        self.tools.get(tag).copied()
    }

    fn shape(&self, id: ShapeId) -> Shape {
        self.shapes.get(id.0 as usize).map_or(Shape::Any, |node| node.shape)
    }

    fn field(&self, object: ShapeId, name: &str) -> Option<ShapeId> {
        self.shapes.get(object.0 as usize)?.fields.get(name).copied()
    }

    /// The only field, if it is a string: every field that is declared by hand counts as required.
    fn only_text(&self, tool: ShapeId) -> Option<&str> {
        let fields = &self.shapes.get(tool.0 as usize)?.fields;
        let mut texts = fields.iter().filter(|(_, field)| self.shape(**field) == Shape::Text);
        texts.next().filter(|_| fields.len() == 1).map(|(name, _)| name.as_str())
    }
}

/// Collects tools for a [`StaticVocabulary`].
#[derive(Debug, Default)]
#[must_use]
pub struct StaticVocabularyBuilder {
    vocabulary: StaticVocabulary,
}

impl StaticVocabularyBuilder {
    /// Adds a tool; `describe` declares its parameters.
    pub fn tool(mut self, name: &str, describe: impl FnOnce(Fields) -> Fields) -> Self {
        let fields = describe(Fields::default());
        let id = self.add(&Declared::Object(fields));
        self.vocabulary.tools.insert(name.to_owned(), id);
        self
    }

    /// The finished vocabulary.
    #[must_use]
    pub fn build(self) -> StaticVocabulary {
        self.vocabulary
    }

    /// Stores a declaration, children first. Declarations are written by hand, so their depth is the
    /// caller's own nesting of closures.
    fn add(&mut self, declared: &Declared) -> ShapeId {
        let mut fields = HashMap::new();
        let shape = match declared {
            Declared::Text => Shape::Text,
            Declared::Scalar => Shape::Scalar,
            Declared::Any => Shape::Any,
            Declared::List(item) => Shape::List { item: self.add(item) },
            Declared::Object(declared) => {
                for (name, field) in &declared.0 {
                    let id = self.add(field);
                    fields.insert(name.clone(), id);
                }
                Shape::Object
            }
        };
        let id = ShapeId(u32::try_from(self.vocabulary.shapes.len()).unwrap_or(u32::MAX));
        self.vocabulary.shapes.push(Node { shape, fields });
        id
    }
}

/// A shape declared by hand.
#[derive(Debug, Clone)]
pub enum Declared {
    /// [`Shape::Text`].
    Text,
    /// [`Shape::Scalar`].
    Scalar,
    /// [`Shape::Any`].
    Any,
    /// [`Shape::List`] of this.
    List(Box<Declared>),
    /// [`Shape::Object`] with these fields.
    Object(Fields),
}

/// The declared fields of a tool or object.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Fields(Vec<(String, Declared)>);

impl Fields {
    /// A string.
    pub fn text(self, name: &str) -> Self {
        self.field(name, Declared::Text)
    }

    /// A number, boolean or the like.
    pub fn scalar(self, name: &str) -> Self {
        self.field(name, Declared::Scalar)
    }

    /// A value of no declared type.
    pub fn any(self, name: &str) -> Self {
        self.field(name, Declared::Any)
    }

    /// An array of `item`.
    pub fn list(self, name: &str, item: Declared) -> Self {
        self.field(name, Declared::List(Box::new(item)))
    }

    /// Declares an object with the given fields.
    pub fn object(self, name: &str, describe: impl FnOnce(Fields) -> Fields) -> Self {
        self.field(name, Declared::Object(describe(Fields::default())))
    }

    /// A field of any declared shape.
    pub fn field(mut self, name: &str, declared: Declared) -> Self {
        self.0.push((name.to_owned(), declared));
        self
    }
}
