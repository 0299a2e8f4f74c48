//! From a function to the function and its tool.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{ItemFn, Result, ReturnType, Signature, Type, TypeParamBound};

use crate::comment::Comment;
use crate::options::{Options, crate_path};
use crate::parameter::{Argument, Parameter, Source, generic, is_named};

pub(crate) fn expand(attributes: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::read(attributes)?;
    let mut function: ItemFn = syn::parse2(item)?;
    refuse(&function.sig)?;
    let comment = Comment::read(&function.attrs);
    if comment.description.is_empty() {
        return Err(syn::Error::new(
            function.sig.ident.span(),
            "a tool needs a description: write a comment `/// What it does.` above the function",
        ));
    }
    let mut parameters = function.sig.inputs.iter_mut().map(Parameter::take).collect::<Result<Vec<_>>>()?;
    describe(&mut parameters, &comment)?;

    let krate = crate_path(options.krate.as_ref())?;
    let (vis, ident) = (&function.vis, &function.sig.ident);
    let tool = definition(&options, &comment, &function.sig, &parameters, &krate);
    let about = format!("The tool that `{ident}` is.");
    // In front of the brackets stands a blank, because this line is what others read, and it is meant.
    let lints = quote!(# [allow(non_camel_case_types, reason = "it is named like the function")]);
    // An attribute and a macro of one name cannot be imported together, so the attribute brings the macro `tool!` with it.
    let unused = quote!(# [allow(unused_macros, reason = "not every tool is named")]);
    let owned = quote!(# [allow(
        clippy::needless_pass_by_value,
        clippy::unused_async,
        reason = "a tool owns what it is given, and may be async for its caller's sake"
    )]);
    Ok(quote! {
        #owned
        #function

        #[doc = #about]
        #lints
        #[derive(Debug, Clone, Copy)]
        #vis struct #ident {}

        impl #krate::FunctionTool for #ident {
            fn tool() -> ::core::result::Result<#krate::Tool, #krate::RegistryError> {
                #tool
            }
        }

        #unused
        macro_rules! tool {
            ($($path:tt)+) => { <$($path)+ as #krate::FunctionTool>::tool() };
        }
    })
}

fn refuse(signature: &Signature) -> Result<()> {
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new(signature.generics.span(), "a tool has no generic parameters"));
    }
    if let Some(token) = &signature.unsafety {
        return Err(syn::Error::new(token.span(), "an unsafe function cannot be a tool"));
    }
    Ok(())
}

/// Brings what the comment says of parameters to them.
fn describe(parameters: &mut [Parameter], comment: &Comment) -> Result<()> {
    for described in &comment.parameters {
        let found = parameters.iter_mut().find_map(|parameter| match &mut parameter.source {
            Source::Argument(argument)
                if parameter.ident == described.name || argument.name == described.name =>
            {
                Some(argument)
            }
            _ => None,
        });
        let Some(argument) = found else {
            let message = format!("the model gives no parameter `{}`", described.name);
            return Err(syn::Error::new(described.span, message));
        };
        argument.description.get_or_insert_with(|| described.text.clone());
    }
    Ok(())
}

fn arguments(parameters: &[Parameter]) -> impl Iterator<Item = &Argument> {
    parameters.iter().filter_map(|parameter| match &parameter.source {
        Source::Argument(argument) => Some(&**argument),
        Source::Dependency(_) | Source::ContextRef | Source::Context => None,
    })
}

/// The body of `FunctionTool::tool`.
fn definition(
    options: &Options,
    comment: &Comment,
    signature: &Signature,
    parameters: &[Parameter],
    krate: &TokenStream,
) -> TokenStream {
    let id = options
        .name
        .clone()
        .unwrap_or_else(|| signature.ident.to_string().trim_start_matches("r#").to_owned());
    let description = &comment.description;
    let declared = arguments(parameters).map(|argument| argument.declare(krate));
    let needs = parameters.iter().filter_map(|parameter| match &parameter.source {
        Source::Dependency(ty) => Some(quote!(.needs(#krate::Requirement::new::<#ty>()))),
        Source::Argument(_) | Source::ContextRef | Source::Context => None,
    });
    let settings = settings(options, krate);
    let flag = |name: &str| options.has(name);
    let (read_only, effect) = (flag("read_only"), flag("effect"));
    let (idempotent, open_world) = (flag("idempotent"), flag("open_world"));
    let title = options.title.iter().map(|title| quote!(.with_title(#title)));
    let approval = options.approval.iter().map(|word| {
        let variant = capital(word);
        quote!(.with_approval(#krate::function::ApprovalDefault::#variant))
    });
    let handler = handler(signature, parameters, options.has("quick"), krate);
    quote! {
        let mut parameters = #krate::function::Parameters::new();
        #(#declared)*
        let tool = #krate::function::tool(#id, #description, parameters, #handler)?;
        ::core::result::Result::Ok(
            tool.with_annotations(#krate::function::annotations(#read_only, #effect, #idempotent, #open_world))
                .with_settings(#settings) #(#title)* #(#approval)* #(#needs)*
        )
    }
}

fn settings(options: &Options, krate: &TokenStream) -> TokenStream {
    let timeout =
        options.timeout_ms.iter().map(|ms| quote!(.with_timeout(::core::time::Duration::from_millis(#ms))));
    let limit = options.result_limit.iter().map(|bytes| quote!(.with_result_limit(#bytes)));
    let concurrency = options.concurrency.iter().map(|calls| quote!(.with_concurrency(#calls)));
    let visibility = options.visibility.iter().map(|word| {
        let variant = capital(word);
        quote!(.with_visibility(#krate::Visibility::#variant))
    });
    let answer = options.has("long_running").then(|| quote!(.with_answer(#krate::Answer::Handle)));
    quote!(#krate::ToolSettings::default() #(#timeout)* #(#limit)* #(#concurrency)* #(#visibility)* #answer)
}

fn capital(word: &str) -> syn::Ident {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format_ident!("{}", first.into_iter().chain(letters).collect::<String>())
}

/// A closure from arguments and context to a future of the result.
fn handler(signature: &Signature, parameters: &[Parameter], quick: bool, krate: &TokenStream) -> TokenStream {
    let ident = &signature.ident;
    let (args, cx) = (syn::Ident::new("args", Span::mixed_site()), syn::Ident::new("cx", Span::mixed_site()));
    let names: Vec<_> =
        (0..parameters.len()).map(|at| format_ident!("p{at}", span = Span::mixed_site())).collect();
    let takes = parameters.iter().zip(&names).map(|(parameter, name)| match &parameter.source {
        Source::Argument(argument) => {
            let (ty, key) = (&argument.ty, &argument.name);
            quote!(let #name: #ty = #args.take(#key)?;)
        }
        Source::Dependency(ty) => quote!(let #name = #cx.dependency::<#ty>()?;),
        Source::ContextRef => quote!(let #name = &#cx;),
        Source::Context => quote!(let #name = ::core::clone::Clone::clone(&#cx);),
    });
    let result = match returned(&signature.output) {
        Returned::Value => quote!(#krate::function::finish(result)),
        Returned::Result => quote!(#krate::function::try_finish(result)),
        Returned::Stream => quote!(#krate::function::collect(result, &#cx).await),
        Returned::ResultOfStream => {
            quote!(#krate::function::collect(#krate::function::succeeded(result)?, &#cx).await)
        }
    };
    if signature.asyncness.is_some() {
        return quote! {
            |mut #args: #krate::function::Arguments, #cx: #krate::ToolContext| async move {
                #(#takes)*
                let result = #ident(#(#names),*).await;
                #result
            }
        };
    }
    match returned(&signature.output) {
        // A stream is made at once and read where others wait.
        Returned::Value | Returned::Result if !quick => quote! {
            |mut #args: #krate::function::Arguments, #cx: #krate::ToolContext| {
                #krate::function::on_a_thread(move || {
                    #(#takes)*
                    let result = #ident(#(#names),*);
                    #result
                })
            }
        },
        Returned::Value | Returned::Result | Returned::Stream | Returned::ResultOfStream => quote! {
            |mut #args: #krate::function::Arguments, #cx: #krate::ToolContext| async move {
                #(#takes)*
                let result = #ident(#(#names),*);
                #result
            }
        },
    }
}

/// Return type of a function, as far as the macro can see it.
#[derive(Clone, Copy)]
enum Returned {
    Value,
    Result,
    Stream,
    ResultOfStream,
}

fn returned(output: &ReturnType) -> Returned {
    let ReturnType::Type(_, ty) = output else { return Returned::Value };
    if is_named(ty, "Result") {
        return if generic(ty).is_some_and(is_stream) { Returned::ResultOfStream } else { Returned::Result };
    }
    if is_stream(ty) { Returned::Stream } else { Returned::Value }
}

fn is_stream(ty: &Type) -> bool {
    match ty {
        Type::ImplTrait(bounds) => bounds.bounds.iter().any(|bound| {
            matches!(bound, TypeParamBound::Trait(bound)
                if bound.path.segments.last().is_some_and(|last| last.ident == "Stream"))
        }),
        other => is_named(other, "BoxStream") || is_named(other, "LocalBoxStream"),
    }
}
