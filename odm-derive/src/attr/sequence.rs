//! Sequence numbers: `#[sequence]` and `#[sequence(per = shop)]`.

use quote::ToTokens;
use syn::{Attribute, Ident, Meta, Path, ext::IdentExt, parse::ParseStream};

use super::{attrs_named, parse_value_with, unknown_setting};
use crate::ctxt::Ctxt;

/// A field with a number that the framework assigns at the insert.
pub(crate) struct SequenceAttr {
    /// The name of the attribute, for errors.
    pub(crate) path: Path,
    /// The field that separates the sequences; `None` for one sequence of the model.
    pub(crate) per: Option<Ident>,
}

const USAGE: &str = "a sequence accepts the name of a field: `#[sequence(per = shop)]`, or `#[sequence]` for one sequence of the model";

impl SequenceAttr {
    /// Parses the attribute of a field.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut attributes = attrs_named(attrs, "sequence");
        let attr = attributes.next()?;
        if let Some(second) = attributes.next() {
            ctxt.error_at(second, "a field can have only one number: remove one");
        }
        let per = match attr.meta {
            Meta::Path(_) => Ok(None),
            Meta::List(_) => attr.parse_args_with(parse_per).map(Some),
            Meta::NameValue(_) => Err(syn::Error::new_spanned(attr, USAGE)),
        };
        Some(Self {
            path: attr.path().clone(),
            per: ctxt.ok_or_report(per)?,
        })
    }

    /// Reports the attribute in places that do not support sequences.
    pub(crate) fn ensure_absent(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in attrs_named(attrs, "sequence") {
            ctxt.error_at(
                attr,
                format!("{place} cannot have sequence numbers: move the field to the document"),
            );
        }
    }
}

/// Parses `per = shop`.
fn parse_per(input: ParseStream<'_>) -> syn::Result<Ident> {
    let setting = input
        .call(Ident::parse_any)
        .map_err(|error| syn::Error::new(error.span(), USAGE))?;
    if setting != "per" {
        let message = unknown_setting("setting", &setting.to_token_stream().to_string(), &["per"]);
        return Err(syn::Error::new_spanned(
            setting,
            format!("{message}: {USAGE}"),
        ));
    }
    let per = parse_value_with(&setting, input, USAGE, Ident::parse_any)?;
    match input.is_empty() {
        true => Ok(per),
        false => Err(input.error(USAGE)),
    }
}
