//! How a field is laid out: `#[embed]`, `#[reference]`, or neither.

use quote::ToTokens;
use syn::{Attribute, LitInt, Meta, Type};

use super::named;
use crate::ctxt::Ctxt;

/// How a field is laid out.
pub(crate) enum Layout {
    /// One value, without an attribute.
    Plain,
    /// `#[embed]`.
    Embed,
    /// `#[embed(max = N)]` or `#[embed(unbounded)]`.
    EmbedMany(Bound),
    /// `#[reference]`, with `max = N` for an array.
    Reference(Option<LitInt>),
}

/// How long an array can get.
pub(crate) enum Bound {
    Max(LitInt),
    Unbounded,
}

impl Layout {
    /// What the attributes of a field say.
    pub(crate) fn parse(ctxt: &mut Ctxt, attrs: &[Attribute], ty: &Type) -> Self {
        let mut layout = Self::Plain;
        for attr in named(attrs, "embed").chain(named(attrs, "reference")) {
            if !matches!(layout, Self::Plain) {
                ctxt.error(
                    attr,
                    "a field is either embedded or a reference, and says so once",
                );
            }
            let reference = attr.path().is_ident("reference");
            if let Some(arguments) = ctxt.ok(Arguments::parse(attr)) {
                layout = arguments.layout(ctxt, attr, ty, reference);
            }
        }
        if matches!(layout, Self::Plain) && is_vec(ty) {
            ctxt.error(
                ty,
                "an array says how long it can get: `#[embed(max = N)]`, or `#[embed(unbounded)]` if you mean it; an \
                 array of `Ref` is a `#[reference]`",
            );
            // Reported: no second error about the same.
            layout = Self::EmbedMany(Bound::Unbounded);
        }
        layout
    }

    /// The `max` of an array.
    pub(crate) fn max(&self) -> Option<&LitInt> {
        match self {
            Self::EmbedMany(Bound::Max(max)) | Self::Reference(Some(max)) => Some(max),
            _ => None,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

#[derive(Default)]
struct Arguments {
    max: Option<LitInt>,
    unbounded: bool,
}

impl Arguments {
    fn parse(attr: &Attribute) -> syn::Result<Self> {
        let mut arguments = Self::default();
        if matches!(attr.meta, Meta::Path(_)) {
            return Ok(arguments);
        }
        let reference = attr.path().is_ident("reference");
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("max") {
                let max: LitInt = meta.value()?.parse()?;
                max.base10_parse::<usize>()?;
                arguments.max = Some(max);
            } else if meta.path.is_ident("unbounded") && !reference {
                arguments.unbounded = true;
            } else {
                let name = meta.path.to_token_stream();
                let known = if reference {
                    "`max = N`"
                } else {
                    "`max = N` and `unbounded`"
                };
                return Err(meta.error(format!(
                    "unknown setting `{name}`: this version knows {known} here"
                )));
            }
            Ok(())
        })?;
        Ok(arguments)
    }

    fn layout(self, ctxt: &mut Ctxt, attr: &Attribute, ty: &Type, reference: bool) -> Layout {
        match (reference, self.max, self.unbounded) {
            (true, max, _) => Layout::Reference(max),
            (false, Some(_), true) => {
                ctxt.error(attr, "an array has a `max` or is `unbounded`, not both");
                Layout::EmbedMany(Bound::Unbounded)
            }
            (false, Some(max), false) => Layout::EmbedMany(Bound::Max(max)),
            (false, None, true) => Layout::EmbedMany(Bound::Unbounded),
            (false, None, false) if is_vec(ty) => {
                ctxt.error(
                    attr,
                    "an array says how long it can get: `#[embed(max = N)]`, or `#[embed(unbounded)]` if you mean it",
                );
                Layout::EmbedMany(Bound::Unbounded)
            }
            (false, None, false) => Layout::Embed,
        }
    }
}

/// Whether the type is spelled `Vec<…>`; one spelled otherwise gets the same answer from the compiler, by its traits.
fn is_vec(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Vec"))
}
