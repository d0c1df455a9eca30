//! The layout of a field: `#[embed]`, `#[reference]`, or neither.

use quote::ToTokens;
use syn::{Attribute, LitInt, Type, meta::ParseNestedMeta};

use super::{
    OverflowAttr, SeenSettings, attrs_named, copy, expect_flag, is_misspelt, link, parse_number,
    parse_settings, parse_value, rollup, unknown_setting,
};
use crate::ctxt::Ctxt;

/// The layout of a field.
pub(crate) enum Layout {
    /// A single value, without an attribute.
    Plain,
    /// `#[embed]`.
    Embed,
    /// `#[embed(max = N)]`, or `#[embed(unbounded)]` without a limit.
    EmbedMany(Option<LitInt>),
    /// `#[embed(overflow(…))]`.
    Overflow(Box<OverflowAttr>),
    /// `#[reference]`.
    Reference,
    /// `#[reference(max = N)]`.
    ReferenceMany(LitInt),
    /// `#[reference(overflow(…))]`.
    ReferenceOverflow(Box<OverflowAttr>),
    /// Invalid attributes, which are already reported.
    Invalid,
}

const MISSING_ARRAY_LIMIT: &str = "an array needs a limit for its length: `#[embed(max = N)]`, or `#[embed(unbounded)]` for no limit";

const MISSING_OVERFLOW: &str = "an overflow array needs a collection for its spilled elements: `#[embed(overflow(after = 50, into = \"…\"))]`";

const MISSING_REFERENCE_OVERFLOW: &str = "an overflow array of references needs a collection for its spilled elements: `#[reference(overflow(after = 50, into = \
     \"…\"))]`";

const OVERFLOW_WITH_LIMIT: &str =
    "an overflow array has neither `max` nor `unbounded`: remove the setting";

const WRONG_OVERFLOW_TYPE: &str = "the type of an overflow array must be `Overflow<…>`";

impl Layout {
    /// Parses the layout attribute of a field.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute], ty: &Type) -> Self {
        let mut attributes = attrs_named(attrs, "embed").chain(attrs_named(attrs, "reference"));
        let latest = rollup::latest_max(attrs);
        let tree = copy::tree_max(attrs);
        let Some(attr) = attributes.next() else {
            return match latest {
                _ if tree.is_some() => tree.map_or(Self::Invalid, Self::ReferenceMany),
                None if is_misspelt(attrs) => Self::Invalid,
                Some(max) => Self::EmbedMany(Some(max)),
                None => Self::without_attribute(ctxt, ty),
            };
        };
        if latest.is_some() || tree.is_some() {
            ctxt.error_at(
                attr,
                "the framework fills this array, and already limits the length: remove this attribute",
            );
            return Self::Invalid;
        }
        if let Some(second) = attributes.next() {
            ctxt.error_at(
                second,
                "a field can have only one of `#[embed]` and `#[reference]`: remove this one",
            );
            return Self::Invalid;
        }
        if attr.path().is_ident("reference") {
            Self::parse_reference(ctxt, attr, ty)
        } else {
            Self::parse_embed(ctxt, attr, ty)
        }
    }

    fn without_attribute(ctxt: &mut Ctxt, ty: &Type) -> Self {
        if is_overflow(ty) {
            ctxt.error_at(ty, MISSING_OVERFLOW);
            return Self::Invalid;
        }
        if !is_vec(ty) {
            return Self::Plain;
        }
        ctxt.error_at(
            ty,
            format!("{MISSING_ARRAY_LIMIT}; an array of `Ref` needs `#[reference]`"),
        );
        Self::Invalid
    }

    fn parse_embed(ctxt: &mut Ctxt, attr: &Attribute, ty: &Type) -> Self {
        let Some(arguments) = LayoutSettings::parse(ctxt, attr, &["max", "overflow", "unbounded"])
        else {
            return Self::Invalid;
        };
        if let Some(overflow) = arguments.overflow {
            if arguments.max.is_some() || arguments.unbounded {
                ctxt.error_at(attr, OVERFLOW_WITH_LIMIT);
                return Self::Invalid;
            }
            if !is_overflow(ty) {
                ctxt.error_at(ty, WRONG_OVERFLOW_TYPE);
                return Self::Invalid;
            }
            return Self::Overflow(Box::new(overflow));
        }
        match (arguments.max, arguments.unbounded) {
            _ if is_overflow(ty) => {
                ctxt.error_at(ty, MISSING_OVERFLOW);
                Self::Invalid
            }
            (Some(_), true) => {
                ctxt.error_at(
                    attr,
                    "`max` and `unbounded` exclude each other: remove one of them",
                );
                Self::Invalid
            }
            (None, false) if is_vec(ty) => {
                ctxt.error_at(attr, MISSING_ARRAY_LIMIT);
                Self::Invalid
            }
            (None, false) => Self::Embed,
            (max, _) => Self::EmbedMany(max),
        }
    }

    fn parse_reference(ctxt: &mut Ctxt, attr: &Attribute, ty: &Type) -> Self {
        let known: Vec<_> = ["max", "overflow"]
            .into_iter()
            .chain(link::LINK_SETTINGS)
            .collect();
        let Some(arguments) = LayoutSettings::parse(ctxt, attr, &known) else {
            return Self::Invalid;
        };
        let Some(overflow) = arguments.overflow else {
            if is_overflow(ty) {
                ctxt.error_at(ty, MISSING_REFERENCE_OVERFLOW);
                return Self::Invalid;
            }
            return arguments.max.map_or(Self::Reference, Self::ReferenceMany);
        };
        let by = overflow.order.as_ref().and_then(|order| order.by.last());
        if arguments.max.is_some() {
            ctxt.error_at(attr, OVERFLOW_WITH_LIMIT);
        } else if !is_overflow(ty) {
            ctxt.error_at(ty, WRONG_OVERFLOW_TYPE);
        } else if let Some(by) = by {
            ctxt.error_at(
                by,
                "references have no fields to sort by: remove this setting, or embed a struct with the reference and the field",
            );
        } else {
            return Self::ReferenceOverflow(Box::new(overflow));
        }
        Self::Invalid
    }

    /// Reports an overflow array in a place that does not support overflow arrays yet.
    pub(crate) fn without_overflow(self, ctxt: &mut Ctxt, ty: &Type, place: &str) -> Self {
        if self.overflow().is_none() {
            return self;
        }
        ctxt.error_at(
            ty,
            format!("{place} cannot have overflow arrays yet: declare the array on a field of a document, or write `max`"),
        );
        Self::Invalid
    }

    /// Returns the settings of an overflow array.
    pub(crate) fn overflow(&self) -> Option<&OverflowAttr> {
        match self {
            Self::Overflow(overflow) | Self::ReferenceOverflow(overflow) => Some(overflow),
            _ => None,
        }
    }

    /// Returns the `max` of an array.
    pub(crate) fn max(&self) -> Option<&LitInt> {
        match self {
            Self::EmbedMany(max) => max.as_ref(),
            Self::ReferenceMany(max) => Some(max),
            _ => None,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

/// The settings between the parentheses.
#[derive(Default)]
struct LayoutSettings {
    max: Option<LitInt>,
    unbounded: bool,
    overflow: Option<OverflowAttr>,
    once: SeenSettings,
}

const MAX_USAGE: &str = "`max` must be an integer of at least 1: `max = 20`";

impl LayoutSettings {
    /// Parses the settings. Returns `None` after an error.
    fn parse(ctxt: &mut Ctxt, attr: &Attribute, known: &[&str]) -> Option<Self> {
        let mut arguments = Self::default();
        if matches!(attr.meta, syn::Meta::Path(_)) {
            return Some(arguments);
        }
        let is_valid = parse_settings(ctxt, attr, |meta| arguments.parse_setting(meta, known));
        is_valid.then_some(arguments)
    }

    fn parse_setting(&mut self, meta: &ParseNestedMeta<'_>, known: &[&str]) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let name = path.to_token_stream().to_string();
        self.once.ensure_new(path)?;
        match name.as_str() {
            "max" => {
                let max: LitInt = parse_value(path, input, MAX_USAGE)?;
                if parse_number::<usize>(&max, MAX_USAGE)? == 0 {
                    return Err(syn::Error::new_spanned(
                        max,
                        "`max` must be at least 1: increase it, or remove the field",
                    ));
                }
                self.max = Some(max);
            }
            // `LinkAttr::parse` reads these settings again, together with the layout.
            name if link::LINK_SETTINGS.contains(&name) && known.contains(&name) => {
                link::LinkSettings::default().parse_setting(meta)?;
            }
            "overflow" if known.contains(&"overflow") => {
                let name = path.require_ident()?;
                self.overflow = Some(OverflowAttr::parse(name, input)?);
            }
            "unbounded" if known.contains(&"unbounded") => {
                expect_flag(path, input)?;
                self.unbounded = true;
            }
            _ => {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                return Err(meta.error(format!(
                    "{}: accepted settings are {}",
                    unknown_setting("setting", &name, known),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Returns whether the type is spelled `Overflow<…>`.
pub(crate) fn is_overflow(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Overflow"))
}

/// Returns whether the type is spelled `Vec<…>`. For an alias of `Vec`, a trait bound in the generated code reports the same
/// error.
pub(super) fn is_vec(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Vec"))
}
