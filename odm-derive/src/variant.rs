//! Parsing and checks of an enum that derives `Embedded`.

use proc_macro2::Span;
use syn::{Attribute, DataEnum, DeriveInput, Fields, Ident, LitStr, Type, ext::IdentExt};

use crate::{
    attr::{
        ComputedAttr, DerivedValue, Layout, LinkAttr, RollupAttr, SerdeContainer, SerdeField,
        SerdeVariant, attrs_named,
    },
    ctxt::Ctxt,
    model::{Field, FieldPlace, VARIANT, ensure_distinct_names, stored_name_error},
    rename,
};

/// An enum with its serde representation.
pub(crate) struct EnumInput<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) repr: EnumRepr,
    pub(crate) variants: Vec<VariantInput<'a>>,
    /// The variants that are not stored: serde's `skip`.
    pub(crate) skipped: Vec<&'a Ident>,
}

/// serde's representation of an enum.
pub(crate) enum EnumRepr {
    /// A document with one field, named as the variant; a text for a unit variant.
    External,
    /// A tag field beside the fields of the variant.
    Internal(String),
    /// A tag field and a field with the content of the variant.
    Adjacent(String, String),
}

/// A stored variant.
pub(crate) struct VariantInput<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) docs: Vec<&'a Attribute>,
    /// The stored name.
    pub(crate) stored: String,
    /// The method that takes a closure about the variant.
    pub(crate) method: Ident,
    /// The method that tests for the variant.
    pub(crate) is_method: Ident,
    pub(crate) content: VariantContent<'a>,
    pub(crate) other: bool,
    /// The variant gets no methods, because another variant has methods of the same names. The derive has reported the conflict.
    pub(crate) is_hidden: bool,
}

/// The content of a variant.
pub(crate) enum VariantContent<'a> {
    Unit,
    Newtype(TupleItem<'a>),
    Tuple(Vec<TupleItem<'a>>),
    Struct(Vec<Field<'a>>),
}

/// An unnamed field of a variant.
pub(crate) struct TupleItem<'a> {
    pub(crate) ty: &'a Type,
    pub(crate) layout: Layout,
    /// serde's `with = "odm::native"`.
    pub(crate) native: bool,
}

impl<'a> EnumInput<'a> {
    /// Parses an enum. Returns `None` for an enum that is stored as one value: `untagged`, or as another type.
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
            if let Some(reason) = stored_name_error(&name.value()) {
                ctxt.error_at(name, reason);
            }
            name.value()
        };
        let repr = match (&serde.tag, &serde.content) {
            (Some(tag), Some(content)) => EnumRepr::Adjacent(name(ctxt, tag), name(ctxt, content)),
            (Some(tag), None) => EnumRepr::Internal(name(ctxt, tag)),
            // serde itself reports a content without a tag.
            (None, _) => EnumRepr::External,
        };
        let mut skipped = Vec::new();
        let mut variants = Vec::new();
        for variant in &data.variants {
            match VariantInput::parse(ctxt, input, variant, &serde, &repr) {
                Some(variant) => variants.push(variant),
                None => skipped.push(&variant.ident),
            }
        }
        ensure_distinct_variants(ctxt, &mut variants);
        Some(Self {
            input,
            repr,
            variants,
            skipped,
        })
    }

    /// Returns whether a variant has content.
    pub(crate) fn has_data(&self) -> bool {
        self.variants
            .iter()
            .any(|variant| !matches!(variant.content, VariantContent::Unit))
    }
}

impl<'a> VariantInput<'a> {
    fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        variant: &'a syn::Variant,
        container: &SerdeContainer,
        repr: &EnumRepr,
    ) -> Option<Self> {
        let serde = SerdeVariant::parse(ctxt, &variant.attrs);
        if serde.skip {
            return None;
        }
        let ident = &variant.ident;
        let name = ident.unraw().to_string();
        let stored = match (&serde.rename, container.rename_all) {
            (Some(rename), _) => rename.value(),
            (None, Some(rule)) => rule.rename_variant(&name),
            (None, None) => name.clone(),
        };
        let content = VariantContent::parse(ctxt, input, variant, container, &serde);
        // serde itself reports a field with the name of the tag. Only names that become path steps need checks: the names of unit
        // variants and of tagged variants are stored as values.
        let is_path =
            matches!(repr, EnumRepr::External) && !matches!(content, VariantContent::Unit);
        if is_path && let Some(reason) = stored_name_error(&stored) {
            match &serde.rename {
                Some(rename) => ctxt.error_at(rename, reason),
                None => ctxt.error_at(ident, reason),
            }
        }
        let method = rename::method_name(&name);
        Some(Self {
            ident,
            docs: attrs_named(&variant.attrs, "doc").collect(),
            stored,
            is_method: method_ident(&format!("is_{method}"), ident.span()),
            method: method_ident(&method, ident.span()),
            content,
            other: serde.other,
            is_hidden: false,
        })
    }
}

impl<'a> VariantContent<'a> {
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
                    .map(|field| TupleItem::parse(ctxt, field))
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
                    .filter_map(|field| Field::parse(ctxt, field, &rules, FieldPlace::Variant))
                    // The fields of a variant have the visibility of the enum.
                    .map(|field| Field {
                        vis: &input.vis,
                        ..field
                    })
                    .collect();
                ensure_distinct_names(ctxt, &fields);
                for field in &named.named {
                    DerivedValue::ensure_absent(ctxt, &field.attrs, VARIANT);
                }
                for field in fields.iter().filter(|field| !field.indexes.is_empty()) {
                    ctxt.error_at(field.ident, NO_INDEX);
                }
                Self::Struct(fields)
            }
        }
    }
}

/// The error message for an index on a field of a variant.
const NO_INDEX: &str = "a field of an enum's variant cannot have an index: remove it";

impl<'a> TupleItem<'a> {
    fn parse(ctxt: &mut Ctxt, field: &'a syn::Field) -> Self {
        let serde = SerdeField::parse(ctxt, &field.attrs);
        if serde.skip {
            ctxt.error_at(
                &field.ty,
                "`skip` is not supported in a tuple: use named fields",
            );
        }
        if let Some(index) = attrs_named(&field.attrs, "index").next() {
            ctxt.error_at(index, NO_INDEX);
        }
        LinkAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
        DerivedValue::ensure_absent(ctxt, &field.attrs, VARIANT);
        ComputedAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
        RollupAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
        let layout = Layout::parse(ctxt, &field.attrs, &field.ty);
        Self {
            ty: &field.ty,
            layout: layout.without_overflow(ctxt, &field.ty, VARIANT),
            native: serde.native,
        }
    }
}

/// Reports variants with equal stored names, which cannot be distinguished in documents, and variants with equal methods.
fn ensure_distinct_variants(ctxt: &mut Ctxt, variants: &mut [VariantInput<'_>]) {
    for i in 1..variants.len() {
        let (before, rest) = variants.split_at_mut(i);
        let Some(variant) = rest.first_mut() else {
            return;
        };
        if before.iter().any(|other| other.stored == variant.stored) {
            ctxt.error_at(
                variant.ident,
                format!(
                    "another variant is stored as `{}` already: rename one of the variants",
                    variant.stored
                ),
            );
        }
        let is_used = |method: &Ident| {
            before
                .iter()
                .any(|other| other.method == *method || other.is_method == *method)
        };
        let duplicate = [&variant.method, &variant.is_method]
            .into_iter()
            .find(|method| is_used(method));
        if let Some(method) = duplicate {
            ctxt.error_at(
                variant.ident,
                format!(
                    "the method `{method}` would belong to two variants: rename one of them, and keep its stored name by \
                     `#[serde(rename = \"{}\")]`",
                    variant.stored
                ),
            );
            variant.is_hidden = true;
        }
    }
}

/// Returns the identifier of a method, escaped if the name is a keyword.
fn method_ident(name: &str, span: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, span),
        Err(_) if matches!(name, "self" | "super" | "crate") => {
            Ident::new(&format!("{name}_"), span)
        }
        Err(_) => Ident::new_raw(name, span),
    }
}
