//! How a field is laid out: `#[embed]`, `#[reference]`, or neither.

use quote::ToTokens;
use syn::{Attribute, LitInt, Type, meta::ParseNestedMeta};

use super::{
    Once, Overflow, flag, is_misspelt, link, named, number, settings, tally, unknown, value,
};
use crate::ctxt::Ctxt;

/// How a field is laid out.
pub(crate) enum Layout {
    /// One value, without an attribute.
    Plain,
    /// `#[embed]`.
    Embed,
    /// `#[embed(max = N)]`, or `#[embed(unbounded)]` without a bound.
    EmbedMany(Option<LitInt>),
    /// `#[embed(overflow(…))]`.
    Overflow(Box<Overflow>),
    /// `#[reference]`.
    Reference,
    /// `#[reference(max = N)]`.
    ReferenceMany(LitInt),
    /// `#[reference(overflow(…))]`.
    ReferenceOverflow(Box<Overflow>),
    /// What it says cannot be: reported already.
    Wrong,
}

const SAY_HOW_LONG: &str = "an array says how long it can get: `#[embed(max = N)]`, or `#[embed(unbounded)]` if you mean it";

const SAY_WHERE_TO: &str =
    "where do its elements overflow? Say `#[embed(overflow(after = 50, into = \"…\"))]`";

const SAY_WHERE_REFERENCES_GO: &str =
    "where do its references overflow? Say `#[reference(overflow(after = 50, into = \"…\"))]`";

const NO_BOUND: &str =
    "an array that overflows has neither a `max` nor is it `unbounded`: leave that out";

const NO_OVERFLOW: &str = "an array whose elements overflow is an `Overflow<…>`: it knows how many there are, and not all of them";

impl Layout {
    /// What the attributes of a field say.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute], ty: &Type) -> Self {
        let mut said = named(attrs, "embed").chain(named(attrs, "reference"));
        let latest = tally::latest(attrs);
        let Some(attr) = said.next() else {
            return match latest {
                None if is_misspelt(attrs) => Self::Wrong,
                Some(max) => Self::EmbedMany(Some(max)),
                None => Self::without_attribute(ctxt, ty),
            };
        };
        if latest.is_some() {
            ctxt.error(
                attr,
                "`#[latest(N, …)]` says how many there are: leave this out",
            );
            return Self::Wrong;
        }
        if let Some(second) = said.next() {
            ctxt.error(
                second,
                "a field is either embedded or a reference, and says so once",
            );
            return Self::Wrong;
        }
        if attr.path().is_ident("reference") {
            Self::reference(ctxt, attr, ty)
        } else {
            Self::embed(ctxt, attr, ty)
        }
    }

    fn without_attribute(ctxt: &mut Ctxt, ty: &Type) -> Self {
        if is_overflow(ty) {
            ctxt.error(ty, SAY_WHERE_TO);
            return Self::Wrong;
        }
        if !is_vec(ty) {
            return Self::Plain;
        }
        ctxt.error(
            ty,
            format!("{SAY_HOW_LONG}; an array of `Ref` is a `#[reference]`"),
        );
        Self::Wrong
    }

    fn embed(ctxt: &mut Ctxt, attr: &Attribute, ty: &Type) -> Self {
        let Some(arguments) = Arguments::parse(ctxt, attr, &["max", "overflow", "unbounded"])
        else {
            return Self::Wrong;
        };
        if let Some(overflow) = arguments.overflow {
            if arguments.max.is_some() || arguments.unbounded {
                ctxt.error(attr, NO_BOUND);
                return Self::Wrong;
            }
            if !is_overflow(ty) {
                ctxt.error(ty, NO_OVERFLOW);
                return Self::Wrong;
            }
            return Self::Overflow(Box::new(overflow));
        }
        match (arguments.max, arguments.unbounded) {
            _ if is_overflow(ty) => {
                ctxt.error(ty, SAY_WHERE_TO);
                Self::Wrong
            }
            (Some(_), true) => {
                ctxt.error(attr, "an array has a `max` or is `unbounded`, not both");
                Self::Wrong
            }
            (None, false) if is_vec(ty) => {
                ctxt.error(attr, SAY_HOW_LONG);
                Self::Wrong
            }
            (None, false) => Self::Embed,
            (max, _) => Self::EmbedMany(max),
        }
    }

    fn reference(ctxt: &mut Ctxt, attr: &Attribute, ty: &Type) -> Self {
        let known: Vec<_> = ["max", "overflow"]
            .into_iter()
            .chain(link::SETTINGS)
            .collect();
        let Some(arguments) = Arguments::parse(ctxt, attr, &known) else {
            return Self::Wrong;
        };
        let Some(overflow) = arguments.overflow else {
            if is_overflow(ty) {
                ctxt.error(ty, SAY_WHERE_REFERENCES_GO);
                return Self::Wrong;
            }
            return arguments.max.map_or(Self::Reference, Self::ReferenceMany);
        };
        let by = overflow.order.as_ref().and_then(|order| order.by.last());
        if arguments.max.is_some() {
            ctxt.error(attr, NO_BOUND);
        } else if !is_overflow(ty) {
            ctxt.error(ty, NO_OVERFLOW);
        } else if let Some(by) = by {
            ctxt.error(
                by,
                "references have no fields to be in the order of: leave this out, or embed a struct with the reference and what it is ordered by",
            );
        } else {
            return Self::ReferenceOverflow(Box::new(overflow));
        }
        Self::Wrong
    }

    /// The same where no array overflows yet.
    pub(crate) fn without_overflow(self, ctxt: &mut Ctxt, ty: &Type, place: &str) -> Self {
        if self.overflow().is_none() {
            return self;
        }
        ctxt.error(
            ty,
            format!("no array overflows in {place} yet: declare it on a field of a document, or say `max`"),
        );
        Self::Wrong
    }

    /// How the elements of an array overflow, if they do.
    pub(crate) fn overflow(&self) -> Option<&Overflow> {
        match self {
            Self::Overflow(overflow) | Self::ReferenceOverflow(overflow) => Some(overflow),
            _ => None,
        }
    }

    /// The `max` of an array.
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

/// What stands between the parentheses.
#[derive(Default)]
struct Arguments {
    max: Option<LitInt>,
    unbounded: bool,
    overflow: Option<Overflow>,
    once: Once,
}

const MAX: &str = "how many at most? A number, at least 1: `max = 20`";

impl Arguments {
    /// None if something there is wrong.
    fn parse(ctxt: &mut Ctxt, attr: &Attribute, known: &[&str]) -> Option<Self> {
        let mut arguments = Self::default();
        if matches!(attr.meta, syn::Meta::Path(_)) {
            return Some(arguments);
        }
        let are_right = settings(ctxt, attr, |meta| arguments.setting(meta, known));
        are_right.then_some(arguments)
    }

    fn setting(&mut self, meta: &ParseNestedMeta<'_>, known: &[&str]) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let name = path.to_token_stream().to_string();
        self.once.check(path)?;
        match name.as_str() {
            "max" => {
                let max: LitInt = value(path, input, MAX)?;
                if number::<usize>(&max, MAX)? == 0 {
                    return Err(syn::Error::new_spanned(
                        max,
                        "an array that may hold nothing is no array: leave the field out, or say at least 1",
                    ));
                }
                self.max = Some(max);
            }
            // `Link` reads them once more, as a whole.
            name if link::SETTINGS.contains(&name) && known.contains(&name) => {
                link::Said::default().setting(meta)?;
            }
            "overflow" if known.contains(&"overflow") => {
                let name = path.require_ident()?;
                self.overflow = Some(Overflow::parse(name, input)?);
            }
            "unbounded" if known.contains(&"unbounded") => {
                flag(path, input)?;
                self.unbounded = true;
            }
            _ => {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                return Err(meta.error(format!(
                    "{}: this version knows {} here",
                    unknown("setting", &name, known),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Whether the type is spelled `Overflow<…>`.
pub(crate) fn is_overflow(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Overflow"))
}

/// Whether the type is spelled `Vec<…>`; one spelled otherwise gets the same answer from the compiler, by its traits.
pub(super) fn is_vec(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Vec"))
}
