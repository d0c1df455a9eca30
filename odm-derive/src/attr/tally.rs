//! What the framework makes of the documents that refer to one: `#[count(…)]`, `#[sum(…)]` and `#[latest(…)]`.

use syn::{
    Attribute, Expr, Ident, LitInt, Meta, Path, Token, ext::IdentExt, parenthesized,
    parse::ParseStream, punctuated::Punctuated, token::Paren,
};

use super::{Once, ends, named, number, unknown, value, value_by};
use crate::ctxt::Ctxt;

/// A field that is made of the documents which refer to the one that has it.
pub(crate) struct Tally {
    /// Their model.
    pub(crate) of: Path,
    /// Their reference.
    pub(crate) reference: Ident,
    /// Which of them: those that have this in these fields.
    pub(crate) when: Vec<(Vec<Ident>, Expr)>,
    pub(crate) keeps: Keeps,
}

/// What is kept of them.
pub(crate) enum Keeps {
    /// How many there are.
    Count,
    /// The sum of what they have in a field.
    Sum(Vec<Ident>),
    /// Something of those that have most in a field.
    Latest { max: LitInt, by: Vec<Ident> },
}

const ATTRIBUTES: [&str; 3] = ["count", "sum", "latest"];

fn all(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    ATTRIBUTES.iter().flat_map(|name| named(attrs, name))
}

/// How many elements a field with `#[latest(N, …)]` has at most.
pub(crate) fn latest(attrs: &[Attribute]) -> Option<LitInt> {
    let attr = named(attrs, "latest").next()?;
    let said = attr.parse_args_with(Said::parse);
    // What is wrong with it is said where the attribute is read.
    said.map_or_else(|_| None, |said| said.max)
        .or_else(|| Some(syn::parse_quote!(1)))
}

impl Tally {
    /// What the attributes of a field say.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut said = all(attrs);
        let attr = said.next()?;
        if let Some(second) = said.next() {
            ctxt.error(second, "a field is made of other documents in one way");
            return None;
        }
        let parsed = match attr.meta {
            Meta::List(_) => attr.parse_args_with(Said::parse),
            // That all is missing is said below.
            Meta::Path(_) | Meta::NameValue(_) => Ok(Said::default()),
        };
        let said = ctxt.ok(parsed)?;
        ctxt.ok(said.checked(attr))
    }

    /// Refuses what the attributes of a field say where nothing keeps it.
    pub(crate) fn refuse(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in all(attrs) {
            ctxt.error(
                attr,
                format!("{place} is not counted by others: put the field into the document that they refer to"),
            );
        }
    }
}

/// The settings, in any order.
#[derive(Default)]
struct Said {
    max: Option<LitInt>,
    of: Option<Path>,
    value: Option<Vec<Ident>>,
    by: Option<Vec<Ident>>,
    when: Vec<(Vec<Ident>, Expr)>,
}

const HERE: &str = "here are `of = Model::reference`, `when(field = value, …)`, for `sum` `value = field`, and for `latest` a number and `by = field`";

const OF: &str = "made of which documents? Say `of = Model::reference`, with the reference there that leads here";
const VALUE: &str = "the sum of which field? Name it: `value = likes`";
const MAX: &str =
    "how many? A number, at least 1: `#[latest(100, of = Model::reference, by = field)]`";
const BY: &str = "the latest by what? Name the field: `by = at`";
const WHEN: &str = "which of them? Say what they have in which field: `when(is_shown = true)`";

impl Said {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut said, mut once) = (Self::default(), Once::default());
        while !input.is_empty() {
            if input.peek(LitInt) {
                let max: LitInt = input.parse()?;
                if said.max.replace(max.clone()).is_some() {
                    return Err(syn::Error::new_spanned(
                        max,
                        "how many there are at most is said twice: leave one of the numbers out",
                    ));
                }
                ends(input, HERE)?;
            } else {
                said.setting(input, &mut once)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(said)
    }

    fn setting(&mut self, input: ParseStream<'_>, once: &mut Once) -> syn::Result<()> {
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| syn::Error::new(error.span(), HERE))?;
        if name != "when" {
            once.check(&name)?;
        }
        match name.to_string().as_str() {
            "of" => self.of = Some(value(&name, input, OF)?),
            "value" => self.value = Some(value_by(&name, input, VALUE, path)?),
            "by" => self.by = Some(value_by(&name, input, BY, path)?),
            "when" => {
                if !input.peek(Paren) {
                    return Err(syn::Error::new_spanned(name, WHEN));
                }
                let content;
                parenthesized!(content in input);
                let conditions: Punctuated<_, Token![,]> =
                    content.parse_terminated(condition, Token![,])?;
                self.when.extend(conditions);
            }
            other => {
                return Err(syn::Error::new_spanned(
                    &name,
                    format!(
                        "{}: {HERE}",
                        unknown("setting", other, &["of", "value", "by", "when"])
                    ),
                ));
            }
        }
        Ok(())
    }

    fn checked(self, attr: &Attribute) -> syn::Result<Tally> {
        let error = |message: &str| Err(syn::Error::new_spanned(attr, message));
        let Some(mut of) = self.of else {
            return error(OF);
        };
        let Some(last) = of.segments.pop() else {
            return error(OF);
        };
        if of.segments.is_empty() {
            return Err(syn::Error::new_spanned(
                last,
                "by which of its references? Say `of = Model::reference`",
            ));
        }
        // What is left ends with `::`.
        if let Some(model) = of.segments.pop() {
            of.segments.push_value(model);
        }
        let keeps = match (attr.path(), self.value, self.max, self.by) {
            (path, None, None, None) if path.is_ident("count") => Keeps::Count,
            (path, Some(value), None, None) if path.is_ident("sum") => Keeps::Sum(value),
            (path, None, Some(max), Some(by)) if path.is_ident("latest") => {
                if number::<usize>(&max, MAX)? == 0 {
                    return Err(syn::Error::new_spanned(max, MAX));
                }
                Keeps::Latest { max, by }
            }
            (path, ..) if path.is_ident("count") => {
                return error(
                    "a count is of documents: `#[count(of = Model::reference)]`, with `when(…)` if not of all",
                );
            }
            (path, ..) if path.is_ident("sum") => {
                return error(
                    "the sum of which field? Say `#[sum(of = Model::reference, value = field)]`",
                );
            }
            _ => {
                return error(
                    "how many, and the latest by what? Say `#[latest(100, of = Model::reference, by = field)]`",
                );
            }
        };
        Ok(Tally {
            of,
            reference: last.ident,
            when: self.when,
            keeps,
        })
    }
}

/// `stats.likes`.
pub(super) fn path(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    let mut path = vec![input.call(Ident::parse_any)?];
    while input.peek(Token![.]) {
        input.parse::<Token![.]>()?;
        path.push(input.call(Ident::parse_any)?);
    }
    Ok(path)
}

/// `state = State::Open`.
fn condition(input: ParseStream<'_>) -> syn::Result<(Vec<Ident>, Expr)> {
    let wrong = |error: syn::Error| syn::Error::new(error.span(), WHEN);
    let path = path(input).map_err(wrong)?;
    let last = path.last();
    let value = value(&last, input, WHEN)?;
    Ok((path, value))
}
