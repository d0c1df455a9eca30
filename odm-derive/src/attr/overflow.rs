//! Overflow arrays: `#[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))]`.

use proc_macro2::Span;
use syn::{Ident, LitInt, LitStr, Token, ext::IdentExt, parenthesized, parse::ParseStream};

use super::{
    SeenSettings, collection_name_error, parse_number, parse_value, parse_value_with,
    rollup::parse_path, unknown_setting,
};
use crate::model::stored_name_error;

/// The settings of an overflow array.
pub(crate) struct OverflowAttr {
    /// The number of resident elements; `None` for `inline`, which keeps all elements in the document.
    after: Option<LitInt>,
    /// The collection of the chunk documents.
    pub(crate) into: LitStr,
    /// The field of a chunk document that holds the `_id` of the owner document.
    owner: Option<LitStr>,
    /// The field of a chunk document that holds its number.
    seq: Option<LitStr>,
    /// The field of a chunk document that holds the elements.
    elements: Option<LitStr>,
    /// The field of the owner document that says whether elements are spilled.
    flag: Option<LitStr>,
    /// The order of the elements; `None` for the order of pushes.
    pub(crate) order: Option<OrderAttr>,
}

/// The order of elements by an element field.
pub(crate) struct OrderAttr {
    pub(crate) by: Vec<Ident>,
    /// The greatest values come first, so the latest elements are resident.
    pub(crate) is_descending: bool,
}

const OVERFLOW_SETTINGS: [&str; 9] = [
    "after",
    "inline",
    "into",
    "owner",
    "seq",
    "elements",
    "flag",
    "first_by",
    "latest_by",
];

const ACCEPTED_SETTINGS: &str = "`overflow(…)` accepts `after`, `inline`, `into`, `owner`, `seq`, `elements`, `flag`, and `first_by` or \
     `latest_by`, as in `overflow(after = 50, into = \"extra_sales\", owner = \"book_id\")`";

const OVERFLOW_AFTER_USAGE: &str = "`after` must be an integer from 1 to 10000, the number of elements in the document: `after = 50`";

impl OverflowAttr {
    /// Parses the settings that follow the word `overflow`.
    pub(crate) fn parse(name: &Ident, input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(syn::token::Paren) {
            return Err(syn::Error::new_spanned(
                name,
                "missing settings of the overflow array: write `overflow(after = 50, into = \"…\")`",
            ));
        }
        let content;
        parenthesized!(content in input);
        let parsed = Self::parse_settings(name, &content);
        if parsed.is_err() {
            // The rest of the content would be reported as a second error.
            content.parse::<proc_macro2::TokenStream>()?;
        }
        parsed
    }

    fn parse_settings(name: &Ident, content: ParseStream<'_>) -> syn::Result<Self> {
        let (mut after, mut inline, mut collection) = (None, None, None);
        let [mut owner, mut seq, mut elements, mut flag] = [const { None }; 4];
        let (mut order, mut seen) = (None, SeenSettings::default());
        while !content.is_empty() {
            let setting = content
                .call(Ident::parse_any)
                .map_err(|error| syn::Error::new(error.span(), ACCEPTED_SETTINGS))?;
            seen.ensure_new(&setting)?;
            let text = || parse_value::<LitStr>(&setting, content, ACCEPTED_SETTINGS);
            match setting.to_string().as_str() {
                "after" => {
                    after = Some(parse_value::<LitInt>(
                        &setting,
                        content,
                        OVERFLOW_AFTER_USAGE,
                    )?)
                }
                "inline" => inline = Some(setting),
                "into" => collection = Some(text()?),
                "owner" => owner = Some(text()?),
                "seq" => seq = Some(text()?),
                "elements" => elements = Some(text()?),
                "flag" => flag = Some(text()?),
                "first_by" | "latest_by" => {
                    let by = parse_value_with(&setting, content, ACCEPTED_SETTINGS, parse_path)?;
                    let is_descending = setting == "latest_by";
                    if order.replace(OrderAttr { by, is_descending }).is_some() {
                        return Err(syn::Error::new_spanned(
                            &setting,
                            "`first_by` and `latest_by` exclude each other: remove one of them",
                        ));
                    }
                }
                other => {
                    return Err(syn::Error::new_spanned(
                        &setting,
                        format!(
                            "{}: {ACCEPTED_SETTINGS}",
                            unknown_setting("setting", other, &OVERFLOW_SETTINGS)
                        ),
                    ));
                }
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        match (&after, &inline) {
            (None, None) => {
                return Err(syn::Error::new_spanned(
                    name,
                    "missing number of elements in the document: write `after = 50`",
                ));
            }
            (Some(_), Some(inline)) => {
                return Err(syn::Error::new_spanned(
                    inline,
                    "`inline` keeps all elements in the document and excludes `after`: remove one of them",
                ));
            }
            _ => {}
        }
        let Some(collection) = collection else {
            return Err(syn::Error::new_spanned(
                name,
                "missing collection of the spilled elements: write `into = \"…\"`",
            ));
        };
        let overflow = Self {
            after,
            into: collection,
            owner,
            seq,
            elements,
            flag,
            order,
        };
        overflow.ensure_valid()?;
        Ok(overflow)
    }

    fn ensure_valid(&self) -> syn::Result<()> {
        if let Some(after) = &self.after
            && !(1..=10_000).contains(&parse_number::<usize>(after, OVERFLOW_AFTER_USAGE)?)
        {
            return Err(syn::Error::new_spanned(after, OVERFLOW_AFTER_USAGE));
        }
        if let Some(reason) = collection_name_error(&self.into.value()) {
            return Err(syn::Error::new_spanned(&self.into, reason));
        }
        let named = [&self.owner, &self.seq, &self.elements, &self.flag];
        for name in named.into_iter().flatten() {
            if let Some(reason) = stored_name_error(&name.value()) {
                return Err(syn::Error::new_spanned(name, reason));
            }
        }
        let mut before: Vec<String> = vec!["_id".to_owned()];
        for name in [&self.owner, &self.seq, &self.elements]
            .into_iter()
            .flatten()
        {
            if before.contains(&name.value()) {
                return Err(syn::Error::new_spanned(
                    name,
                    format!(
                        "a chunk document would have two fields `{}`: choose different names for `owner`, `seq` and \
                         `elements`",
                        name.value()
                    ),
                ));
            }
            before.push(name.value());
        }
        Ok(())
    }

    /// Returns the number of resident elements. An `inline` array has a number that no array reaches.
    pub(crate) fn resident_count(&self) -> LitInt {
        let all = || LitInt::new("1_000_000_000", Span::call_site());
        self.after.clone().unwrap_or_else(all)
    }

    /// Returns whether all elements stay in the document: `inline`.
    pub(crate) fn is_inline(&self) -> bool {
        self.after.is_none()
    }

    pub(crate) fn owner_field(&self) -> String {
        name_or(&self.owner, || "owner".to_owned())
    }

    pub(crate) fn seq_field(&self) -> String {
        name_or(&self.seq, || "seq".to_owned())
    }

    pub(crate) fn elements_field(&self, stored: &str) -> String {
        name_or(&self.elements, || format!("{stored}_extra"))
    }

    pub(crate) fn flag_field(&self) -> String {
        name_or(&self.flag, || "has_extras".to_owned())
    }

    /// Returns the literal of the setting `flag`, if present.
    pub(crate) fn flag_literal(&self) -> Option<&LitStr> {
        self.flag.as_ref()
    }
}

fn name_or(name: &Option<LitStr>, default: impl FnOnce() -> String) -> String {
    name.as_ref().map_or_else(default, LitStr::value)
}
