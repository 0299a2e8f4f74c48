//! One parameter of a function: what the model gives, or what the context gives.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprRange, FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, RangeLimits,
    Result, Type,
};

use crate::comment::Comment;

/// A parameter and where its value comes from.
pub(crate) struct Parameter {
    pub(crate) ident: Ident,
    pub(crate) source: Source,
}

/// Source of a parameter's value.
pub(crate) enum Source {
    /// From the model.
    Argument(Box<Argument>),
    /// A `Dep<T>` of this type.
    Dependency(Box<Type>),
    /// The context by reference.
    ContextRef,
    /// The context by value.
    Context,
}

/// Parameter that the model provides, as declared to it.
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) description: Option<String>,
    options: ArgumentOptions,
}

#[derive(Default)]
struct ArgumentOptions {
    name: Option<String>,
    default: Option<Expr>,
    range: Option<ExprRange>,
    choices: Vec<Expr>,
}

impl Parameter {
    /// Reads a parameter and takes its comment and `#[arg]` away from it.
    pub(crate) fn take(input: &mut FnArg) -> Result<Self> {
        let FnArg::Typed(typed) = input else {
            return Err(syn::Error::new(input.span(), "a method cannot be a tool; use a function"));
        };
        let ident = match &*typed.pat {
            Pat::Ident(pattern) => pattern.ident.clone(),
            other => return Err(syn::Error::new(other.span(), "a parameter of a tool needs a name")),
        };
        let source = match &*typed.ty {
            Type::Reference(reference) if is_named(&reference.elem, "ToolContext") => Source::ContextRef,
            ty if is_named(ty, "ToolContext") => Source::Context,
            ty if is_named(ty, "Dep") => match generic(ty) {
                Some(inner) => Source::Dependency(Box::new(inner.clone())),
                None => return Err(syn::Error::new(ty.span(), "`Dep` of which type?")),
            },
            Type::Reference(reference) => {
                return Err(syn::Error::new(
                    reference.span(),
                    "a parameter that the model provides must be owned: write `String` in place of `&str`",
                ));
            }
            _ => Source::Argument(Box::new(argument(typed, &ident)?)),
        };
        typed.attrs.retain(|attribute| !is_ours(attribute));
        Ok(Self { ident, source })
    }
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("arg") || attribute.path().is_ident("doc")
}

fn argument(typed: &PatType, ident: &Ident) -> Result<Argument> {
    let mut options = ArgumentOptions::default();
    for attribute in typed.attrs.iter().filter(|attribute| attribute.path().is_ident("arg")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                options.name = Some(meta.value()?.parse::<syn::LitStr>()?.value());
            } else if meta.path.is_ident("default") {
                options.default = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("range") {
                options.range = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("choices") {
                let members;
                syn::parenthesized!(members in meta.input);
                let members = members.parse_terminated(<Expr as syn::parse::Parse>::parse, syn::Token![,])?;
                options.choices = members.into_iter().collect();
            } else {
                return Err(meta.error("`#[arg]` takes name, default, range and choices"));
            }
            Ok(())
        })?;
    }
    let own = Comment::read(&typed.attrs).description;
    let plain = ident.to_string();
    Ok(Argument {
        name: options.name.clone().unwrap_or_else(|| plain.trim_start_matches("r#").to_owned()),
        ty: (*typed.ty).clone(),
        description: (!own.is_empty()).then_some(own),
        options,
    })
}

impl Argument {
    /// The call that declares it.
    pub(crate) fn declare(&self, krate: &TokenStream) -> TokenStream {
        let Self { name, ty, description, options } = self;
        let optional = if is_named(ty, "Option") { generic(ty) } else { None };
        let shown = optional.unwrap_or(ty);
        let required = optional.is_none() && options.default.is_none();
        let description = description.as_deref().unwrap_or_default();
        let keyword = |key: &str, value: &Expr| quote!(.keyword(#key, #krate::function::json(&(#value))));
        let mut keywords = Vec::new();
        if let Some(range) = &options.range {
            keywords.extend(range.start.as_deref().map(|start| keyword("minimum", start)));
            let end = match range.limits {
                RangeLimits::HalfOpen(_) => "exclusiveMaximum",
                RangeLimits::Closed(_) => "maximum",
            };
            keywords.extend(range.end.as_deref().map(|value| keyword(end, value)));
        }
        if !options.choices.is_empty() {
            let members = &options.choices;
            keywords.push(quote!(.keyword("enum", #krate::function::json(&(&[#(#members),*])))));
        }
        if let Some(default) = &options.default {
            keywords.push(quote!(.default_value(#krate::function::json(&(#default)))));
        }
        quote! {
            parameters.add::<#shown>(
                #krate::function::Parameter::new(#name, #description, #required) #(#keywords)*
            );
        }
    }
}

/// Returns `true` when the last segment of a type's path has this name.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// The first type between the angle brackets.
pub(crate) fn generic(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
