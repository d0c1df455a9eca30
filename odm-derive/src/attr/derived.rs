//! What the framework takes from other documents: `#[denormalize(from = …)]` and `#[snapshot(…)]`.

use quote::ToTokens;
use syn::{Attribute, Ident, ext::IdentExt, meta::ParseNestedMeta};

use super::{Once, flag, named, settings, tally::path, unknown, value_by};
use crate::ctxt::Ctxt;

/// A field whose value comes from another document, or never changes.
pub(crate) enum Derived {
    /// It follows what it was taken from.
    Denormalized {
        from: Source,
        pace: Pace,
        /// Where it says that it becomes null when the source is deleted.
        clears: Option<Ident>,
    },
    /// It was taken when the document was inserted, which may remember of what and when.
    Taken { from: Source, origin: bool },
    /// The application says it when the document is inserted.
    Frozen,
}

/// Where a value comes from: a reference beside the field, and the field of the document that it leads to.
pub(crate) struct Source {
    pub(crate) reference: Ident,
    pub(crate) path: Vec<Ident>,
}

/// When copies follow.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Some at once, many in the background.
    #[default]
    Bounded,
    /// All before the write is answered.
    Sync,
    /// All behind the answer.
    Background,
}

impl Derived {
    /// What the attributes of a field say.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut said = named(attrs, "denormalize").chain(named(attrs, "snapshot"));
        let attr = said.next()?;
        if let Some(second) = said.next() {
            ctxt.error(
                second,
                "a field is either a copy that follows or a snapshot that does not, and says so once",
            );
            return None;
        }
        if attr.path().is_ident("denormalize") {
            return denormalized(ctxt, attr);
        }
        snapshot(ctxt, attr)
    }

    /// Where the value comes from, if from another document.
    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::Denormalized { from, .. } | Self::Taken { from, .. } => Some(from),
            Self::Frozen => None,
        }
    }

    /// Whether it becomes null when its source is deleted.
    pub(crate) fn is_clearing(&self) -> bool {
        matches!(
            self,
            Self::Denormalized {
                clears: Some(_),
                ..
            }
        )
    }

    /// Refuses what the attributes of a field say where nothing keeps it yet.
    pub(crate) fn refuse(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in named(attrs, "denormalize").chain(named(attrs, "snapshot")) {
            ctxt.error(
                attr,
                format!("{place} has no copies and no snapshots yet: put them into an embedded struct, or on the document"),
            );
        }
    }
}

fn denormalized(ctxt: &mut Ctxt, attr: &Attribute) -> Option<Derived> {
    let (mut from, mut pace, mut on_delete) = (None, None, None);
    let (mut is_understood, mut once) = (true, Once::default());
    if attr.meta.require_list().is_ok() {
        is_understood = settings(ctxt, attr, |meta| {
            once.check(&meta.path)?;
            if meta.path.is_ident("from") {
                from = Some(source(meta)?);
                return Ok(());
            }
            if meta.path.is_ident("on_delete") {
                on_delete = when_deleted(meta)?;
                return Ok(());
            }
            let said = if meta.path.is_ident("sync") {
                Pace::Sync
            } else if meta.path.is_ident("background") {
                Pace::Background
            } else {
                return Err(meta.error(format!(
                    "{}: `#[denormalize(…)]` has `from = reference.field`, `sync`, `background`, `on_delete = keep` and `clear`",
                    unknown("setting", &name(meta), &["from", "sync", "background", "on_delete"])
                )));
            };
            if pace.replace(said).is_some() {
                return Err(meta
                    .error("a copy follows `sync` or in the `background`: leave one of them out"));
            }
            flag(&meta.path, meta.input)
        });
    }
    let Some(from) = from else {
        if is_understood {
            ctxt.error(
                attr,
                "a copy of what? Say `#[denormalize(from = reference.field)]`, where `reference` is a field beside this one",
            );
        }
        return None;
    };
    Some(Derived::Denormalized {
        from,
        pace: pace.unwrap_or_default(),
        clears: on_delete,
    })
}

/// `on_delete = keep`, which is nothing to do, or `on_delete = clear`.
fn when_deleted(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<Ident>> {
    let word = value_by(&meta.path, meta.input, ON_DELETE, Ident::parse_any)?;
    match word.to_string().as_str() {
        "keep" => Ok(None),
        "clear" => Ok(Some(word)),
        _ => Err(syn::Error::new_spanned(word, ON_DELETE)),
    }
}

const ON_DELETE: &str = "a copy has `on_delete = keep`, which is so without it, or `on_delete = clear`: it becomes null when its source is \
     deleted, and the reference stays; what becomes of the reference is said there, `#[reference(on_delete = …)]`";

/// The name of a setting.
fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.to_token_stream().to_string()
}

fn snapshot(ctxt: &mut Ctxt, attr: &Attribute) -> Option<Derived> {
    let (mut from, mut origin, mut once) = (None, false, Once::default());
    if attr.meta.require_path_only().is_err() {
        let is_understood = settings(ctxt, attr, |meta| {
            once.check(&meta.path)?;
            if meta.path.is_ident("from") {
                from = Some(source(meta)?);
            } else if meta.path.is_ident("origin") {
                flag(&meta.path, meta.input)?;
                origin = true;
            } else {
                return Err(meta.error(format!(
                    "{}: `#[snapshot(…)]` has `from = reference.field`, `origin`",
                    unknown("setting", &name(meta), &["from", "origin"])
                )));
            }
            Ok(())
        });
        if from.is_none() {
            if is_understood {
                ctxt.error(attr, "taken from where? Say `#[snapshot(from = reference.field)]`, or leave the parentheses out");
            }
            return None;
        }
    }
    Some(match from {
        Some(from) => Derived::Taken { from, origin },
        None => Derived::Frozen,
    })
}

const FROM: &str =
    "from which field of the document that a reference leads to? Say `from = reference.field`";

/// `from = host.address.city`.
fn source(meta: &ParseNestedMeta<'_>) -> syn::Result<Source> {
    let mut path = value_by(&meta.path, meta.input, FROM, path)?;
    let reference = path.remove(0);
    if path.is_empty() {
        return Err(syn::Error::new_spanned(
            &reference,
            format!(
                "which field of the document that `{reference}` leads to? Say `from = {reference}.field`"
            ),
        ));
    }
    Ok(Source { reference, path })
}
