//! Templates of texts.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};

/// Steps that one template may take.
const FUEL: u64 = 200_000;
/// The name of the one template in its environment.
const TEMPLATE: &str = "template";

/// Reason why a template cannot be parsed or filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError(String);

impl std::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TemplateError {}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
        Self(match error.detail() {
            Some(detail) => format!("{}: {detail}{line}", error.kind()),
            None => format!("{}{line}", error.kind()),
        })
    }
}

/// A text with `{{ name }}`, loops and conditions, as `core:TextTemplate` fills it. It reads no file, knows no undefined
/// name and stops after 200,000 steps.
///
/// ```
/// use node_library::Template;
/// let template = Template::new("Hello {{ name }}!").unwrap();
/// let names = serde_json::json!({"name": "Ada"});
/// assert_eq!(template.fill(names.as_object().unwrap()).unwrap(), "Hello Ada!");
/// assert_eq!(Template::new("{{ name").unwrap_err().to_string(), "syntax error: unexpected end of input, expected end of variable block (line 1)");
/// ```
#[derive(Debug)]
pub struct Template(Environment<'static>);

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It is none, with the line.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.add_template_owned(TEMPLATE, source.to_owned())?;
        Ok(Self(environment))
    }

    /// Fills it with values by name.
    ///
    /// # Errors
    /// A name that is not there, a value of the wrong kind, too many steps.
    pub fn fill(&self, names: &Map<String, Value>) -> Result<String, TemplateError> {
        let template = self.0.get_template(TEMPLATE)?;
        Ok(template.render(minijinja::value::Serde(names))?)
    }
}
