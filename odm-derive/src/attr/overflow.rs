//! An array whose elements overflow into another collection: `#[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))]`.

use proc_macro2::Span;
use syn::{Ident, LitInt, LitStr, Token, ext::IdentExt, parenthesized, parse::ParseStream};

use super::{Once, number, refuse_collection, tally::path, unknown, value, value_by};
use crate::model::refuse_name;

/// How the elements of an array overflow.
pub(crate) struct Overflow {
    /// How many elements stay in the document; none if all do again.
    after: Option<LitInt>,
    /// The collection of the others.
    pub(crate) into: LitStr,
    /// Their documents' field with the id of the owner.
    owner: Option<LitStr>,
    /// That with the number of the document.
    seq: Option<LitStr>,
    /// That with the elements.
    elements: Option<LitStr>,
    /// The owner's field that says that there are more.
    flag: Option<LitStr>,
    /// In which order its elements are; none if in that of the pushes.
    pub(crate) order: Option<Order>,
}

/// The order of elements by a field of theirs.
pub(crate) struct Order {
    pub(crate) by: Vec<Ident>,
    /// The latest stay in the document, and not the first.
    pub(crate) is_descending: bool,
}

const SETTINGS: [&str; 9] = [
    "after",
    "gather",
    "into",
    "owner",
    "seq",
    "elements",
    "flag",
    "first_by",
    "latest_by",
];

const KNOWN: &str = "here are `after`, `gather`, `into`, `owner`, `seq`, `elements`, `flag`, and `first_by` or `latest_by`, as in `overflow(after = 50, into = \"extra_sales\", owner = \"book_id\")`";

const AFTER: &str =
    "from 1 to 10000 elements stay in the document, as many as are read with it: `after = 50`";

impl Overflow {
    /// What stands behind the word `overflow`.
    pub(crate) fn parse(name: &Ident, input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(syn::token::Paren) {
            return Err(syn::Error::new_spanned(
                name,
                "after how many elements, and into which collection? Say `overflow(after = 50, into = \"…\")`",
            ));
        }
        let content;
        parenthesized!(content in input);
        let said = Self::read(name, &content);
        if said.is_err() {
            // What is left would be an error of its own.
            content.parse::<proc_macro2::TokenStream>()?;
        }
        said
    }

    fn read(name: &Ident, content: ParseStream<'_>) -> syn::Result<Self> {
        let (mut after, mut gather, mut into) = (None, None, None);
        let [mut owner, mut seq, mut elements, mut flag] = [const { None }; 4];
        let (mut order, mut once) = (None, Once::default());
        while !content.is_empty() {
            let setting = content
                .call(Ident::parse_any)
                .map_err(|error| syn::Error::new(error.span(), KNOWN))?;
            once.check(&setting)?;
            let text = || value::<LitStr>(&setting, content, KNOWN);
            match setting.to_string().as_str() {
                "after" => after = Some(value::<LitInt>(&setting, content, AFTER)?),
                "gather" => gather = Some(setting),
                "into" => into = Some(text()?),
                "owner" => owner = Some(text()?),
                "seq" => seq = Some(text()?),
                "elements" => elements = Some(text()?),
                "flag" => flag = Some(text()?),
                "first_by" | "latest_by" => {
                    let by = value_by(&setting, content, KNOWN, path)?;
                    let is_descending = setting == "latest_by";
                    if order.replace(Order { by, is_descending }).is_some() {
                        return Err(syn::Error::new_spanned(
                            &setting,
                            "its elements are in one order: say `first_by` or `latest_by`",
                        ));
                    }
                }
                other => {
                    return Err(syn::Error::new_spanned(
                        &setting,
                        format!("{}: {KNOWN}", unknown("setting", other, &SETTINGS)),
                    ));
                }
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        match (&after, &gather) {
            (None, None) => {
                return Err(syn::Error::new_spanned(
                    name,
                    "how many elements stay in the document? Say `after = 50`",
                ));
            }
            (Some(_), Some(gather)) => {
                return Err(syn::Error::new_spanned(
                    gather,
                    "`gather` is the way back, on which all elements stay in the document: leave `after` out, or `gather`",
                ));
            }
            _ => {}
        }
        let Some(into) = into else {
            return Err(syn::Error::new_spanned(
                name,
                "where do the others go? Say `into = \"…\"`, a collection of their own",
            ));
        };
        let overflow = Self {
            after,
            into,
            owner,
            seq,
            elements,
            flag,
            order,
        };
        overflow.check()?;
        Ok(overflow)
    }

    fn check(&self) -> syn::Result<()> {
        if let Some(after) = &self.after
            && !(1..=10_000).contains(&number::<usize>(after, AFTER)?)
        {
            return Err(syn::Error::new_spanned(after, AFTER));
        }
        if let Some(reason) = refuse_collection(&self.into.value()) {
            return Err(syn::Error::new_spanned(&self.into, reason));
        }
        let named = [&self.owner, &self.seq, &self.elements, &self.flag];
        for name in named.into_iter().flatten() {
            if let Some(reason) = refuse_name(&name.value()) {
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
                    format!("a document of the extras has one field `{}`", name.value()),
                ));
            }
            before.push(name.value());
        }
        Ok(())
    }

    /// How many elements stay in the document: on the way back no number of them is too many.
    pub(crate) fn after(&self) -> LitInt {
        let all = || LitInt::new("1_000_000_000", Span::call_site());
        self.after.clone().unwrap_or_else(all)
    }

    /// Whether they all are to stay in the document again.
    pub(crate) fn gathers(&self) -> bool {
        self.after.is_none()
    }

    pub(crate) fn owner(&self) -> String {
        said(&self.owner, || "owner".to_owned())
    }

    pub(crate) fn seq(&self) -> String {
        said(&self.seq, || "seq".to_owned())
    }

    pub(crate) fn elements(&self, stored: &str) -> String {
        said(&self.elements, || format!("{stored}_extra"))
    }

    pub(crate) fn flag(&self) -> String {
        said(&self.flag, || "has_extras".to_owned())
    }

    /// Where the flag is said, if it is.
    pub(crate) fn said_flag(&self) -> Option<&LitStr> {
        self.flag.as_ref()
    }
}

fn said(name: &Option<LitStr>, default: impl FnOnce() -> String) -> String {
    name.as_ref().map_or_else(default, LitStr::value)
}
