//! An enum that derives `Embedded`: parsed, and checked as far as the input alone tells.

use proc_macro2::Span;
use syn::{Attribute, DataEnum, DeriveInput, Fields, Ident, LitStr, Type, ext::IdentExt};

use crate::{
    attr::{
        Computed, Derived, Layout, Link, SerdeContainer, SerdeField, SerdeVariant, Tally, named,
    },
    ctxt::Ctxt,
    model::{Field, Place, VARIANT, refuse_name, refuse_same_names},
    rename,
};

/// An enum with serde's representation of it.
pub(crate) struct Enum<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) repr: Repr,
    pub(crate) variants: Vec<Variant<'a>>,
    /// The variants that are not stored: serde's `skip`.
    pub(crate) skipped: Vec<&'a Ident>,
}

/// How serde tells the variants apart.
pub(crate) enum Repr {
    /// A document of one field, named as the variant; a text for a unit variant.
    External,
    /// A field beside those of the variant.
    Internal(String),
    /// A field, beside another one with what is in the variant.
    Adjacent(String, String),
}

/// A variant that is stored.
pub(crate) struct Variant<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) docs: Vec<&'a Attribute>,
    /// The name under which serde writes it.
    pub(crate) stored: String,
    /// The method that speaks of it.
    pub(crate) method: Ident,
    /// The method that asks for it alone.
    pub(crate) is: Ident,
    pub(crate) content: Content<'a>,
    pub(crate) other: bool,
    /// Another variant has its methods, which is reported already.
    pub(crate) is_hidden: bool,
}

/// What is in a variant.
pub(crate) enum Content<'a> {
    Unit,
    Newtype(Item<'a>),
    Tuple(Vec<Item<'a>>),
    Struct(Vec<Field<'a>>),
}

/// A field without a name.
pub(crate) struct Item<'a> {
    pub(crate) ty: &'a Type,
    pub(crate) layout: Layout,
    /// serde's `with = "odm::native"`.
    pub(crate) native: bool,
}

impl<'a> Enum<'a> {
    /// Understands an enum; none if it is stored as one value: untagged, or as another type.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        data: &'a DataEnum,
    ) -> Option<Self> {
        let serde = SerdeContainer::parse(ctxt, &input.attrs);
        if serde.untagged || serde.other_form {
            return None;
        }
        let name = |ctxt: &mut Ctxt, name: &LitStr| {
            if let Some(reason) = refuse_name(&name.value()) {
                ctxt.error(name, reason);
            }
            name.value()
        };
        let repr = match (&serde.tag, &serde.content) {
            (Some(tag), Some(content)) => Repr::Adjacent(name(ctxt, tag), name(ctxt, content)),
            (Some(tag), None) => Repr::Internal(name(ctxt, tag)),
            // serde itself refuses a content without a tag.
            (None, _) => Repr::External,
        };
        let mut skipped = Vec::new();
        let mut variants = Vec::new();
        for variant in &data.variants {
            match Variant::parse(ctxt, input, variant, &serde, &repr) {
                Some(variant) => variants.push(variant),
                None => skipped.push(&variant.ident),
            }
        }
        refuse_same_variants(ctxt, &mut variants);
        Some(Self {
            input,
            repr,
            variants,
            skipped,
        })
    }

    /// Whether it has a variant with something in it.
    pub(crate) fn has_data(&self) -> bool {
        self.variants
            .iter()
            .any(|variant| !matches!(variant.content, Content::Unit))
    }
}

impl<'a> Variant<'a> {
    fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        variant: &'a syn::Variant,
        container: &SerdeContainer,
        repr: &Repr,
    ) -> Option<Self> {
        let serde = SerdeVariant::parse(ctxt, &variant.attrs);
        if serde.skip {
            return None;
        }
        let ident = &variant.ident;
        let name = ident.unraw().to_string();
        let stored = match (&serde.rename, container.rename_all) {
            (Some(rename), _) => rename.value(),
            (None, Some(rule)) => rule.variant(&name),
            (None, None) => name.clone(),
        };
        let content = Content::parse(ctxt, input, variant, container, &serde);
        // serde itself refuses a field that is stored where the tag is. The name of a unit variant is a value, and so is what stands in a tag.
        let is_path = matches!(repr, Repr::External) && !matches!(content, Content::Unit);
        if is_path && let Some(reason) = refuse_name(&stored) {
            match &serde.rename {
                Some(rename) => ctxt.error(rename, reason),
                None => ctxt.error(ident, reason),
            }
        }
        let method = rename::method(&name);
        Some(Self {
            ident,
            docs: named(&variant.attrs, "doc").collect(),
            stored,
            is: method_ident(&format!("is_{method}"), ident.span()),
            method: method_ident(&method, ident.span()),
            content,
            other: serde.other,
            is_hidden: false,
        })
    }
}

impl<'a> Content<'a> {
    fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        variant: &'a syn::Variant,
        container: &SerdeContainer,
        serde: &SerdeVariant,
    ) -> Self {
        match &variant.fields {
            Fields::Unit => Self::Unit,
            Fields::Unnamed(fields) => {
                let mut items: Vec<_> = fields
                    .unnamed
                    .iter()
                    .map(|field| Item::parse(ctxt, field))
                    .collect();
                match (items.len(), items.pop()) {
                    (1, Some(only)) => Self::Newtype(only),
                    (_, last) => {
                        items.extend(last);
                        Self::Tuple(items)
                    }
                }
            }
            Fields::Named(named) => {
                let rules = SerdeContainer {
                    rename_all: serde.rename_all.or(container.rename_all_fields),
                    ..SerdeContainer::default()
                };
                let fields = named.named.iter();
                let fields: Vec<_> = fields
                    .filter_map(|field| Field::parse(ctxt, field, &rules, Place::Variant))
                    // The fields of a variant are as visible as the enum.
                    .map(|field| Field {
                        vis: &input.vis,
                        ..field
                    })
                    .collect();
                refuse_same_names(ctxt, &fields);
                for field in &named.named {
                    Derived::refuse(ctxt, &field.attrs, VARIANT);
                }
                for field in fields.iter().filter(|field| !field.indexes.is_empty()) {
                    ctxt.error(field.ident, NO_INDEX);
                }
                Self::Struct(fields)
            }
        }
    }
}

/// Why a field of a variant has no index.
const NO_INDEX: &str =
    "indexes belong to a collection, and no index goes over one variant of an enum";

impl<'a> Item<'a> {
    fn parse(ctxt: &mut Ctxt, field: &'a syn::Field) -> Self {
        let serde = SerdeField::parse(ctxt, &field.attrs);
        if serde.skip {
            ctxt.error(
                &field.ty,
                "`skip` is not supported in a tuple: give the fields names",
            );
        }
        if let Some(index) = named(&field.attrs, "index").next() {
            ctxt.error(index, NO_INDEX);
        }
        Link::refuse(ctxt, &field.attrs, VARIANT);
        Derived::refuse(ctxt, &field.attrs, VARIANT);
        Computed::refuse(ctxt, &field.attrs, VARIANT);
        Tally::refuse(ctxt, &field.attrs, VARIANT);
        let layout = Layout::parse(ctxt, &field.attrs, &field.ty);
        Self {
            ty: &field.ty,
            layout: layout.without_overflow(ctxt, &field.ty, VARIANT),
            native: serde.native,
        }
    }
}

/// Two variants of one name could not be told apart, neither when they are read nor in a filter.
fn refuse_same_variants(ctxt: &mut Ctxt, variants: &mut [Variant<'_>]) {
    for i in 1..variants.len() {
        let (before, rest) = variants.split_at_mut(i);
        let Some(variant) = rest.first_mut() else {
            return;
        };
        if before.iter().any(|other| other.stored == variant.stored) {
            ctxt.error(
                variant.ident,
                format!("another variant is stored as `{}` already", variant.stored),
            );
        }
        let is_taken = |method: &Ident| {
            before
                .iter()
                .any(|other| other.method == *method || other.is == *method)
        };
        let taken = [&variant.method, &variant.is]
            .into_iter()
            .find(|method| is_taken(method));
        if let Some(method) = taken {
            ctxt.error(
                variant.ident,
                format!(
                    "the method `{method}` would speak of two variants: call one of them otherwise, its stored name stays with \
                     `#[serde(rename = \"{}\")]`",
                    variant.stored
                ),
            );
            variant.is_hidden = true;
        }
    }
}

/// The method of this name, though the name be a keyword.
fn method_ident(name: &str, span: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, span),
        Err(_) if matches!(name, "self" | "super" | "crate") => {
            Ident::new(&format!("{name}_"), span)
        }
        Err(_) => Ident::new_raw(name, span),
    }
}
