//! Copies and snapshots: `#[denormalize(from = …)]` and `#[snapshot(…)]`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{
    Attribute, Ident, LitInt, Meta, Token, ext::IdentExt, meta::ParseNestedMeta, parse::ParseStream,
};

use super::{
    SeenSettings, attrs_named, expect_flag, parse_number, parse_settings, parse_value,
    parse_value_with, rollup::parse_path, unknown_setting,
};
use crate::ctxt::Ctxt;

/// A field with a copy or a snapshot.
pub(crate) enum DerivedValue {
    /// A copy, which fan-outs keep equal to its source.
    Denormalized {
        from: CopySource,
        mode: CopyMode,
        /// `on_delete = clear`: deleting the source sets the copy to null.
        clears: Option<Ident>,
    },
    /// The ancestors of a document in a tree: the ancestors of the parent, and the parent.
    Ancestors {
        from: CopySource,
        /// The maximum number of ancestors.
        max: LitInt,
    },
    /// A snapshot of a source, taken at the insert. `origin` stores the source document and the time.
    Snapshot { from: CopySource, origin: bool },
    /// A snapshot that the application provides at the insert.
    Frozen,
}

/// The source of a value: a reference in the same struct, and a field of the referenced document.
pub(crate) struct CopySource {
    pub(crate) reference: Ident,
    pub(crate) path: Vec<Ident>,
}

/// When a fan-out writes copies.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CopyMode {
    /// A bounded number before the write returns, the rest in the background.
    #[default]
    Bounded,
    /// All before the write returns.
    Sync,
    /// All in the background.
    Background,
}

impl DerivedValue {
    /// Parses the copy or snapshot attribute of a field.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute], field: &Ident) -> Option<Self> {
        let names = ["denormalize", "snapshot", "tree"];
        let mut attributes = names.into_iter().flat_map(|name| attrs_named(attrs, name));
        let attr = attributes.next()?;
        if let Some(second) = attributes.next() {
            ctxt.error_at(
                second,
                "a field can have only one of `#[denormalize(…)]`, `#[snapshot(…)]` and `#[tree(…)]`: remove this one",
            );
            return None;
        }
        if attr.path().is_ident("denormalize") {
            return parse_denormalize(ctxt, attr);
        }
        if attr.path().is_ident("tree") {
            return parse_tree(ctxt, attr, field);
        }
        parse_snapshot(ctxt, attr)
    }

    /// Returns the source in another document, if any.
    pub(crate) fn source(&self) -> Option<&CopySource> {
        match self {
            Self::Denormalized { from, .. }
            | Self::Ancestors { from, .. }
            | Self::Snapshot { from, .. } => Some(from),
            Self::Frozen => None,
        }
    }

    /// Returns whether deleting the source sets the copy to null.
    pub(crate) fn clears_on_delete(&self) -> bool {
        matches!(
            self,
            Self::Denormalized {
                clears: Some(_),
                ..
            }
        )
    }

    /// Reports copy and snapshot attributes in places that do not support them yet.
    pub(crate) fn ensure_absent(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        for attr in attrs_named(attrs, "denormalize").chain(attrs_named(attrs, "snapshot")) {
            ctxt.error_at(
                attr,
                format!("{place} cannot have copies or snapshots yet: move the field to an embedded struct or to the document"),
            );
        }
    }
}

/// The maximum number of ancestors without the setting `max`.
const DEFAULT_MAX_ANCESTORS: usize = 100;

const TREE_USAGE: &str =
    "a tree needs the reference to the parent: `#[tree(parent = parent)] ancestors: Vec<Ref<…>>`";
const TREE_MAX_USAGE: &str = "`max` must be an integer from 1 to 1000: `max = 20`";

/// Returns the maximum number of ancestors of a field with `#[tree(…)]`. `DerivedValue::parse` reports errors in the attribute.
pub(super) fn tree_max(attrs: &[Attribute]) -> Option<LitInt> {
    let attr = attrs_named(attrs, "tree").next()?;
    let settings = attr.parse_args_with(TreeSettings::parse);
    Some(settings.map_or_else(|_| default_max_ancestors(), |settings| settings.max))
}

fn default_max_ancestors() -> LitInt {
    LitInt::new(&DEFAULT_MAX_ANCESTORS.to_string(), Span::call_site())
}

/// The settings of a tree.
struct TreeSettings {
    parent: Ident,
    max: LitInt,
}

impl TreeSettings {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut parent, mut max, mut seen) = (None, None, SeenSettings::default());
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            seen.ensure_new(&name)?;
            match name.to_string().as_str() {
                "parent" => {
                    parent = Some(parse_value_with(
                        &name,
                        input,
                        TREE_USAGE,
                        Ident::parse_any,
                    )?);
                }
                "max" => {
                    let literal: LitInt = parse_value(&name, input, TREE_MAX_USAGE)?;
                    if !(1..=1000).contains(&parse_number::<usize>(&literal, TREE_MAX_USAGE)?) {
                        return Err(syn::Error::new_spanned(literal, TREE_MAX_USAGE));
                    }
                    max = Some(literal);
                }
                other => {
                    let message = unknown_setting("setting", other, &["parent", "max"]);
                    let message =
                        format!("{message}: `#[tree(…)]` accepts `parent = field` and `max = N`");
                    return Err(syn::Error::new_spanned(name, message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let parent = parent.ok_or_else(|| input.error(TREE_USAGE))?;
        Ok(Self {
            parent,
            max: max.unwrap_or_else(default_max_ancestors),
        })
    }
}

fn parse_tree(ctxt: &mut Ctxt, attr: &Attribute, field: &Ident) -> Option<DerivedValue> {
    let settings = match attr.meta {
        Meta::List(_) => attr.parse_args_with(TreeSettings::parse),
        Meta::Path(_) | Meta::NameValue(_) => Err(syn::Error::new_spanned(attr, TREE_USAGE)),
    };
    let TreeSettings { parent, max } = ctxt.ok_or_report(settings)?;
    let from = CopySource {
        reference: parent,
        path: vec![field.clone()],
    };
    Some(DerivedValue::Ancestors { from, max })
}

fn parse_denormalize(ctxt: &mut Ctxt, attr: &Attribute) -> Option<DerivedValue> {
    let (mut from, mut mode, mut on_delete) = (None, None, None);
    let (mut is_understood, mut seen) = (true, SeenSettings::default());
    if attr.meta.require_list().is_ok() {
        is_understood = parse_settings(ctxt, attr, |meta| {
            seen.ensure_new(&meta.path)?;
            if meta.path.is_ident("from") {
                from = Some(parse_source(meta)?);
                return Ok(());
            }
            if meta.path.is_ident("on_delete") {
                on_delete = parse_on_delete(meta)?;
                return Ok(());
            }
            let flag = if meta.path.is_ident("sync") {
                CopyMode::Sync
            } else if meta.path.is_ident("background") {
                CopyMode::Background
            } else {
                return Err(meta.error(format!(
                    "{}: `#[denormalize(…)]` accepts `from = reference.field`, `sync`, `background`, `on_delete = keep` and \
                     `on_delete = clear`",
                    unknown_setting("setting", &setting_name(meta), &["from", "sync", "background", "on_delete"])
                )));
            };
            if mode.replace(flag).is_some() {
                return Err(
                    meta.error("`sync` and `background` exclude each other: remove one of them")
                );
            }
            expect_flag(&meta.path, meta.input)
        });
    }
    let Some(from) = from else {
        if is_understood {
            ctxt.error_at(
                attr,
                "missing source of the copy: write `#[denormalize(from = reference.field)]`, where `reference` is a field of the \
                 same struct",
            );
        }
        return None;
    };
    Some(DerivedValue::Denormalized {
        from,
        mode: mode.unwrap_or_default(),
        clears: on_delete,
    })
}

/// Parses `on_delete = keep`, which changes nothing, or `on_delete = clear`.
fn parse_on_delete(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<Ident>> {
    let word = parse_value_with(
        &meta.path,
        meta.input,
        COPY_ON_DELETE_USAGE,
        Ident::parse_any,
    )?;
    match word.to_string().as_str() {
        "keep" => Ok(None),
        "clear" => Ok(Some(word)),
        _ => Err(syn::Error::new_spanned(word, COPY_ON_DELETE_USAGE)),
    }
}

const COPY_ON_DELETE_USAGE: &str = "`on_delete` of a copy is `keep`, the default, or `clear`, which sets the copy to null when its source \
     is deleted; the delete rule of the reference is `#[reference(on_delete = …)]`";

/// Returns the name of a setting.
fn setting_name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.to_token_stream().to_string()
}

fn parse_snapshot(ctxt: &mut Ctxt, attr: &Attribute) -> Option<DerivedValue> {
    let (mut from, mut origin, mut seen) = (None, false, SeenSettings::default());
    if attr.meta.require_path_only().is_err() {
        let is_understood = parse_settings(ctxt, attr, |meta| {
            seen.ensure_new(&meta.path)?;
            if meta.path.is_ident("from") {
                from = Some(parse_source(meta)?);
            } else if meta.path.is_ident("origin") {
                expect_flag(&meta.path, meta.input)?;
                origin = true;
            } else {
                return Err(meta.error(format!(
                    "{}: `#[snapshot(…)]` accepts `from = reference.field` and `origin`",
                    unknown_setting("setting", &setting_name(meta), &["from", "origin"])
                )));
            }
            Ok(())
        });
        if from.is_none() {
            if is_understood {
                ctxt.error_at(attr, "missing source of the snapshot: write `#[snapshot(from = reference.field)]`, or `#[snapshot]` \
                     for a value from the application");
            }
            return None;
        }
    }
    Some(match from {
        Some(from) => DerivedValue::Snapshot { from, origin },
        None => DerivedValue::Frozen,
    })
}

const COPY_FROM_USAGE: &str = "missing source field: write `from = reference.field`, where `field` is a field of the referenced document";

/// Parses `from = host.address.city`.
fn parse_source(meta: &ParseNestedMeta<'_>) -> syn::Result<CopySource> {
    let mut path = parse_value_with(&meta.path, meta.input, COPY_FROM_USAGE, parse_path)?;
    let reference = path.remove(0);
    if path.is_empty() {
        return Err(syn::Error::new_spanned(
            &reference,
            format!(
                "missing source field of the document that `{reference}` refers to: write `from = {reference}.field`"
            ),
        ));
    }
    Ok(CopySource { reference, path })
}
