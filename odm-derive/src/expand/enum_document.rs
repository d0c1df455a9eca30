//! `#[derive(Document)]` of an enum: one collection with documents of several models.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{DataEnum, DeriveInput, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath,
    document::{StoredIndex, index_expression, root_tree},
    fields::{closed_impl, layout_function, stored_item, with_span},
    scope::in_any_scope,
    type_text, where_bounds, with_params,
};
use crate::{
    attr::{
        ContainerAttrs, DeclaredIndexes, ID_HAS_AN_INDEX, IndexAttr, Layout, ManagedField,
        ManagedKind, OPTIONS_AFTER_SEMICOLON,
    },
    ctxt::Ctxt,
    variant::{EnumInput, EnumRepr, VariantContent, VariantInput},
};

/// The settings of `#[document(…)]` on an enum, beside `crate`.
const ENUM_DOCUMENT_SETTINGS: &[&str] = &["collection", "index", "shared", "timestamps", "version"];

/// An enum with variants that each hold the struct of a model.
struct EnumDocument<'a> {
    input: &'a DeriveInput,
    private: PrivatePath,
    collection: String,
    /// The field with the tag of the variant.
    tag: String,
    /// The accessor of the tag, if the name is a valid identifier.
    tag_ident: Option<Ident>,
    variants: Vec<(VariantInput<'a>, Type)>,
    /// The model of the first variant. Properties that all variants share are taken from this model.
    first: Type,
    shared: Vec<SharedField>,
    filled: Vec<ManagedField>,
    indexes: Vec<IndexAttr>,
    /// Whether variants are missing because the derive has rejected them.
    is_partial: bool,
}

/// A field that every variant has.
struct SharedField {
    ident: Ident,
    ty: Type,
    role: TokenStream,
}

pub(super) fn expand(ctxt: &mut Ctxt, input: &DeriveInput, data: &DataEnum) -> Option<TokenStream> {
    let kinds = EnumDocument::parse(ctxt, input, data)?;
    let (tree, implementation) = (kinds.field_tree(), kinds.document_impl());
    let types = kinds.variant_types();
    let closed = closed_impl(input, types.iter(), false, &kinds.private);
    let variants = kinds.has_variant_impls();
    let checks = ctxt.is_clean().then(|| kinds.type_checks());
    let scope_impls = in_any_scope(input, &kinds.private);
    let mut code = tree;
    code.extend([quote!(#implementation #scope_impls #variants #closed #checks).into()]);
    Some(code.into_tokens(&kinds.private))
}

impl<'a> EnumDocument<'a> {
    fn parse(ctxt: &mut Ctxt, input: &'a DeriveInput, data: &'a DataEnum) -> Option<Self> {
        let container = ContainerAttrs::parse(ctxt, input, "document", ENUM_DOCUMENT_SETTINGS);
        let collection = container.collection.as_ref().map(syn::LitStr::value);
        if collection.is_none() && !container.has_collection_setting(&input.attrs) {
            ctxt.error_at(
                &input.ident,
                "missing collection: write `#[document(collection = \"…\")]`",
            );
        }
        if let Some(lifetime) = input.generics.lifetimes().next() {
            ctxt.error_at(
                lifetime,
                "a document must own its values: remove the lifetime",
            );
            return None;
        }
        let parsed = EnumInput::parse(ctxt, input, data);
        let tag = match parsed.as_ref().map(|parsed| &parsed.repr) {
            Some(EnumRepr::Internal(tag)) => tag.clone(),
            other => {
                ctxt.error_at(&input.ident, representation_error(other));
                return None;
            }
        };
        let EnumInput {
            variants, skipped, ..
        } = parsed?;
        for ident in skipped {
            ctxt.error_at(
                ident,
                "this variant is not stored, so it cannot be a document: remove the `skip`, or the variant",
            );
        }
        let variants = valid_variants(ctxt, input, variants);
        let first = match variants.first() {
            Some((_, ty)) => ty.clone(),
            None => {
                if ctxt.is_clean() {
                    ctxt.error_at(
                        &input.ident,
                        "an enum without variants has no documents: add a variant",
                    );
                }
                return None;
            }
        };
        let private = PrivatePath::of_crate(&container.krate);
        let full_path = private.full_path();
        let own_role = quote!(#full_path::role::Own);
        let filled_role = quote!(#full_path::role::Managed);
        let mut shared: Vec<_> = container
            .shared
            .into_iter()
            .map(|(ident, ty)| SharedField {
                ident,
                ty,
                role: own_role.clone(),
            })
            .collect();
        for ManagedField { kind, field } in &container.managed_fields {
            let ty = match kind {
                ManagedKind::Version => syn::parse_quote!(::std::primitive::i64),
                ManagedKind::Created | ManagedKind::Updated => {
                    syn::parse_quote!(#full_path::DateTime)
                }
                // No setting of an enum declares these kinds.
                ManagedKind::Deleted
                | ManagedKind::Scope
                | ManagedKind::Id
                | ManagedKind::AutoId
                | ManagedKind::Number
                | ManagedKind::Sequence
                | ManagedKind::Inverse
                | ManagedKind::Copy
                | ManagedKind::Computed
                | ManagedKind::Rollup => continue,
            };
            shared.push(SharedField {
                ident: field.clone(),
                ty,
                role: filled_role.clone(),
            });
        }
        let mut kinds = Self {
            input,
            private,
            collection: collection.unwrap_or_default(),
            tag_ident: accessor_ident(&tag, input.ident.span()),
            tag,
            variants,
            first,
            shared,
            filled: container.managed_fields,
            indexes: container.indexes,
            is_partial: !ctxt.is_clean(),
        };
        kinds.ensure_distinct_accessors(ctxt);
        kinds.ensure_valid_indexes(ctxt);
        Some(kinds)
    }

    /// Reports methods of the field tree with equal names.
    fn ensure_distinct_accessors(&mut self, ctxt: &mut Ctxt) {
        let mut accessors: HashSet<Ident> = HashSet::from([Ident::new("id", Span::call_site())]);
        accessors.extend(self.tag_ident.clone());
        self.shared.retain(|shared| {
            let is_new = accessors.insert(shared.ident.clone());
            if !is_new {
                ctxt.error_at(
                    &shared.ident,
                    format!("`{}` is shared already: remove it", shared.ident),
                );
            }
            is_new
        });
        for (variant, _) in &mut self.variants {
            for method in [&variant.method, &variant.is_method] {
                if accessors.contains(method) && !variant.is_hidden {
                    ctxt.error_at(
                        variant.ident,
                        format!(
                            "the method `{method}` would belong to the variant and to a field: rename the variant, and keep its \
                             stored name by `#[serde(rename = \"{}\")]`",
                            variant.stored
                        ),
                    );
                    variant.is_hidden = true;
                }
            }
        }
    }

    fn ensure_valid_indexes(&mut self, ctxt: &mut Ctxt) {
        let shared = self.shared.iter().map(|shared| &shared.ident);
        let accessors: HashSet<String> = shared
            .chain(&self.tag_ident)
            .map(ToString::to_string)
            .chain(["id".to_owned()])
            .collect();
        let mut before = DeclaredIndexes::default();
        self.indexes.retain(|index| {
            if let Some(option) =
                index.misplaced_option(|name| accessors.contains(&name.to_string()))
            {
                ctxt.error_at(option, OPTIONS_AFTER_SEMICOLON);
                return false;
            }
            let mut caseless = index.keys.iter().filter(|key| key.ignore_case);
            if let Some(name) = caseless.find_map(|key| key.path.first()) {
                ctxt.error_at(
                    name,
                    "an index of an enum cannot ignore case yet: write the field without `ignore_case`",
                );
                return false;
            }
            let mut firsts = index.keys.iter().filter_map(|key| key.path.first());
            if let Some(name) = firsts.find(|name| !accessors.contains(&name.to_string())) {
                ctxt.error_at(
                    name,
                    format!(
                        "an index of the enum can use only shared fields: add `shared({name}: …)`, or declare the index on the \
                         struct of one variant"
                    ),
                );
                return false;
            }
            if let Some(at) = index.keys.first().and_then(|key| key.path.first()) {
                before.ensure_distinct(ctxt, &index.keys, &index.options, at);
            }
            if let [key] = index.keys.as_slice()
                && let [name] = key.path.as_slice()
                && name == "id"
            {
                ctxt.error_at(name, ID_HAS_AN_INDEX);
            }
            true
        });
    }

    fn variant_types(&self) -> Vec<Type> {
        self.variants.iter().map(|(_, ty)| ty.clone()).collect()
    }

    /// Returns the field tree: the shared fields, and a closure method for each variant.
    fn field_tree(&self) -> GeneratedCode {
        let (private, vis) = (&self.private.full_path(), &self.input.vis);
        let (_, type_generics) = with_params(&self.input.generics, &quote!(), &quote!());
        let name = &self.input.ident;
        let self_type = quote!(#name #type_generics);
        let first = &self.first;
        let id = quote_spanned!(first.span()=> <#first as #private::Document>::Id);
        let id = quote! {
            /// The `_id`.
            #[must_use]
            #vis fn id(&self) -> <#id as #private::Stored>::Fields<#self_type, #private::role::Id, #private::shape::One> {
                <#id as #private::Stored>::fields(self.path.subfield("_id"))
            }
        };
        let tag = self.tag_ident.as_ref().map(|ident| {
            let tag = &self.tag;
            quote! {
                /// The tag: the variant of the document.
                #[must_use]
                #vis fn #ident(&self) -> #private::Field<#self_type, ::std::string::String, #private::role::Managed, #private::shape::One> {
                    #private::FromPath::from_path(self.path.subfield(#tag))
                }
            }
        });
        let shared = self.shared.iter().map(|SharedField { ident, ty, role }| {
            let tree = stored_item(
                ty,
                private,
                &quote!(Fields<#self_type, #role, #private::shape::One>),
            );
            let fields = stored_item(ty, private, &quote!(fields));
            let paths = self.variants.iter().map(|(_, variant)| {
                let tree = quote!(<#variant as #private::Document>::fields());
                quote_spanned!(ident.span()=> #private::path_of(#tree.#ident()))
            });
            let doc = format!("The field `{}`, which all variants share.", ident.unraw());
            quote! {
                #[doc = #doc]
                #[must_use]
                #vis fn #ident(&self) -> #tree {
                    #fields(#private::shared_path([#(#paths),*]))
                }
            }
        });
        let methods = self
            .variants
            .iter()
            .filter(|(variant, _)| !variant.is_hidden);
        let methods = methods.map(|(variant, ty)| {
            let (is_method, method, docs) = (&variant.is_method, &variant.method, &variant.docs);
            let tag = self.tag_expression(variant, private);
            let ident = variant.ident.unraw();
            let summary = format!("Matches documents of the variant `{ident}`.");
            let variant_doc =
                format!("Applies a condition or an update to documents of the variant `{ident}`.");
            let variant_doc = if docs.is_empty() {
                quote!(#[doc = #variant_doc])
            } else {
                quote!(#(#docs)*)
            };
            let fields = with_span(quote!(<#ty as #private::Document>::Fields), ty.span());
            let of_kind = with_span(
                quote!(#private::OfDocumentVariant<#self_type, #ty>),
                ty.span(),
            );
            let applied = with_span(
                quote!(#tag.of_kind::<#self_type, #ty, __X>(build)),
                ty.span(),
            );
            quote! {
                #[doc = #summary]
                #[must_use]
                #vis fn #is_method(&self) -> #private::Filter<#self_type> {
                    #tag.filter(&self.path)
                }

                #variant_doc
                #vis fn #method<__X: #of_kind>(
                    &self,
                    build: impl ::core::ops::FnOnce(#fields) -> __X,
                ) -> <__X as #of_kind>::Out {
                    #applied
                }
            }
        });
        root_tree(
            self.input,
            quote!(#id #tag #(#shared)* #(#methods)*),
            &self.private,
        )
    }

    fn tag_expression(&self, variant: &VariantInput<'_>, private: &PrivatePath) -> TokenStream {
        let (tag, stored) = (&self.tag, &variant.stored);
        quote!(#private::Tag::Field(#tag, #stored))
    }

    fn document_impl(&self) -> TokenStream {
        let (private, input) = (&self.private, self.input);
        let (name, tree) = (&input.ident, crate::model::fields_ident(input));
        let text = name.unraw().to_string();
        let (_, names) = with_params(&input.generics, &quote!(), &quote!());
        let (impl_generics, _, where_clause) = input.generics.split_for_impl();
        let (collection, tag, first) = (&self.collection, &self.tag, &self.first);
        let types = self.variant_types();
        let models: Vec<_> = types.iter().map(|ty| model_constant(ty, private)).collect();
        let first_model = model_constant(first, private);
        let idents: Vec<_> = self
            .variants
            .iter()
            .map(|(variant, _)| variant.ident)
            .collect();
        let stored: Vec<_> = self
            .variants
            .iter()
            .map(|(variant, _)| &variant.stored)
            .collect();
        let tags = self
            .variants
            .iter()
            .map(|(variant, _)| self.tag_expression(variant, private));
        let id = quote_spanned!(first.span()=> <#first as #private::Document>::Id);
        let fields = self.tag_ident.iter().map(|ident| {
            let rust = ident.unraw().to_string();
            quote!((#rust, #tag))
        });
        let shared = self.shared.iter().map(|SharedField { ident, .. }| {
            let rust = ident.unraw().to_string();
            quote!((#rust, #private::stored_or_rust_name(&#first_model, #rust)))
        });
        let own_indexes = self
            .indexes
            .iter()
            .map(|attr| StoredIndex {
                keys: attr.keys.clone(),
                options: &attr.options,
                begins_with_scope: false,
            })
            .map(|index| index_expression(&index, false, private));
        let checks = self
            .model_assertions()
            .map(|check| quote!(const { #check };));
        let same = types.iter().map(|ty| {
            with_span(
                quote!(#private::SameId::<#id>::same_id(<#ty as #private::Document>::id(one))),
                ty.span(),
            )
        });
        let each = |code: fn(&Type, &PrivatePath) -> TokenStream| {
            types
                .iter()
                .map(move |ty| with_span(code(ty, private), ty.span()))
        };
        let validate =
            each(|ty, private| quote!(<#ty as #private::Document>::check_bounds_of(one, place)));
        let variants =
            each(|ty, private| quote!(<#ty as #private::Document>::variants(one, found);));
        let indexes = each(|ty, private| quote!(#private::variant_indexes::<#ty>()));
        let take_managed =
            each(|ty, private| quote!(<#ty as #private::Document>::take_managed(one, from)));
        let read = each(|ty, private| quote!(<#ty as #private::Document>::from_stored(raw)));
        // A rejected variant has no arm. The code never runs, because the derive has reported an error.
        let rest = self
            .is_partial
            .then(|| quote!(_ => ::core::unreachable!(),));
        let bounds = where_bounds(&input.generics);
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Document for #name #names #where_clause {
                type Id = #id;
                type Fields = #tree #names;
                type Listed = Self;
                type Itself = Self;
                type Sharding = #private::Unsharded;
                const COLLECTION: &'static str = #collection;
                const MODEL: #private::Model = #private::Model {
                    name: #text,
                    collection: #collection,
                    fields: &[("id", "_id"), #(#fields,)* #(#shared,)*],
                    has_serde_defaults: false #(|| #models.has_serde_defaults)*,
                    rounds_values: false #(|| #models.rounds_values)*,
                    managed: #first_model.managed,
                    version: #first_model.version,
                    updated: #first_model.updated,
                    ..#private::Model::UNKNOWN
                };
                fn id(&self) -> &#id {
                    match self {
                        #(Self::#idents(one) => #same,)*
                        #rest
                    }
                }
                fn check_bounds_of(&self, place: &#private::CheckedPlace<'_>) -> #private::Result<()> {
                    #(#checks)*
                    match self {
                        #(Self::#idents(one) => #validate,)*
                        #rest
                    }
                }
                fn indexes() -> #private::Vec<#private::Index> {
                    let mut all = ::std::vec![#(#own_indexes),*];
                    #(all.extend(#indexes);)*
                    all
                }
                fn variants(&self, found: &mut #private::VariantMap) {
                    #(found.known(#models.fields);)*
                    match self {
                        #(Self::#idents(one) => {
                            found.variant(#tags);
                            #variants
                        })*
                        #rest
                    }
                }
                fn take_managed(&mut self, from: Self) {
                    match (self, from) {
                        #((Self::#idents(one), Self::#idents(from)) => #take_managed,)*
                        _ => {}
                    }
                }
                fn from_stored(raw: &#private::RawDocument) -> #private::Result<Self> {
                    match #private::stored_tag(raw, #tag) {
                        #(#private::Some(#stored) => #read.map(Self::#idents),)*
                        _ => #private::unknown_variant(raw, #tag),
                    }
                }
            }

            // A bound with `for<'__a>` is checked only where the implementation is used.
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::InsertedAsIs for #name #names
            where
                #bounds
                #(for<'__a> #types: #private::InsertedAsIs,)*
            {}
        }
    }

    /// Returns the `HasVariant` implementation for each variant.
    fn has_variant_impls(&self) -> TokenStream {
        let pairs = self
            .variants
            .iter()
            .map(|(variant, ty)| (&variant.stored, ty));
        has_variant_impls(
            self.input,
            &self.collection,
            &self.tag,
            pairs,
            &self.private,
        )
    }

    /// Returns the checks of the variants' types.
    fn type_checks(&self) -> TokenStream {
        let private = &self.private;
        let name = &self.input.ident;
        let (_, type_generics, _) = self.input.generics.split_for_impl();
        let models = self.variants.iter().map(|(_, ty)| {
            with_span(
                quote!(#private::variant::<#ty, #name #type_generics>();),
                ty.span(),
            )
        });
        let shared = self.variants.iter().flat_map(|(_, variant)| {
            self.shared
                .iter()
                .map(move |SharedField { ident, ty, .. }| {
                    let tree = quote!(<#variant as #private::Document>::fields());
                    let place = with_span(quote!(#private::shared(#tree.#ident())), ident.span());
                    let check = with_span(quote!(.holds::<#ty, #variant>()), ty.span());
                    quote!(#place #check;)
                })
        });
        let types = layout_function(&self.input.generics, models.chain(shared));
        // Models of a generic enum are checked where its values are checked.
        let is_plain = self.input.generics.params.is_empty();
        let models = self.model_assertions().filter(|_| is_plain);
        quote!(#types #(const _: () = #models;)*)
    }

    /// Returns compile-time assertions about the models of the variants.
    fn model_assertions(&self) -> impl Iterator<Item = TokenStream> {
        let (private, tag) = (&self.private, &self.tag);
        let has =
            |kind: &[ManagedKind]| self.filled.iter().any(|filled| kind.contains(&filled.kind));
        let (version, updated) = (has(&[ManagedKind::Version]), has(&[ManagedKind::Updated]));
        let filled: Vec<_> = self
            .filled
            .iter()
            .map(|filled| filled.field.unraw().to_string())
            .collect();
        let first = model_constant(&self.first, private);
        self.variants.iter().flat_map(move |(_, ty)| {
            let model = model_constant(ty, private);
            let clash_message = format!(
                "a field of this struct is stored as `{tag}`, which is the tag of the enum: rename one of them"
            );
            let mismatch = format!(
                "`version` and `timestamps` must be declared on the enum `{}` and on the struct of each variant, with fields of \
                 the same stored names",
                self.input.ident.unraw()
            );
            let mut checks = vec![
                quote_spanned!(ty.span()=> ::core::assert!(#private::leaves_name_to_tag(#tag, &#model), #clash_message)),
                quote_spanned! {ty.span()=>
                    ::core::assert!(
                        #private::manages_same_fields(&#model, &#first, &[#(#filled),*], [#version, #updated]),
                        #mismatch
                    )
                },
            ];
            checks.extend(self.shared.iter().map(|shared| {
                let rust = shared.ident.unraw().to_string();
                let message = format!(
                    "`{rust}` has different stored names in the variants: write the same `rename` and `rename_all` in each"
                );
                quote_spanned! {shared.ident.span()=>
                    ::core::assert!(#private::stores_field_alike(&#model, &#first, #rust), #message)
                }
            }));
            checks
        })
    }
}

/// Returns the `HasVariant` implementations, which contain the collection of a variant's model and its tag.
pub(crate) fn has_variant_impls<'v>(
    input: &DeriveInput,
    collection: &str,
    tag: &str,
    variants: impl Iterator<Item = (&'v String, &'v Type)>,
    private: &PrivatePath,
) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let each = variants.map(|(stored, ty)| {
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::HasVariant<#ty> for #name #type_generics #where_clause {
                const COLLECTION: &'static str = #collection;
                const TAG: (&'static str, &'static str) = (#tag, #stored);
            }
        }
    });
    quote!(#(#each)*)
}

/// Returns why an enum with this representation cannot be a document, and the remedy.
fn representation_error(repr: Option<&EnumRepr>) -> &'static str {
    match repr {
        Some(EnumRepr::Adjacent(..)) => {
            "with `content`, serde stores the `_id` inside the content, but a document has its `_id` beside the tag: remove the \
             `content`, `#[serde(tag = \"kind\")]`"
        }
        Some(_) => {
            "serde stores this enum as `{\"Variant\": {…}}`, but a document has its `_id` beside a tag: write `#[serde(tag = \
             \"kind\")]`"
        }
        None => {
            "an enum in this form stores no tag, which a document needs to distinguish its variants: write `#[serde(tag = \
             \"kind\")]` instead"
        }
    }
}

/// Returns the variants that hold a model, with the types of these models. Reports the invalid variants.
fn valid_variants<'a>(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    variants: Vec<VariantInput<'a>>,
) -> Vec<(VariantInput<'a>, Type)> {
    let name = &input.ident;
    let mut valid: Vec<(VariantInput<'a>, Type)> = Vec::new();
    for variant in variants {
        let ty = match &variant.content {
            VariantContent::Newtype(item)
                if matches!(item.layout, Layout::Plain) && !item.native =>
            {
                item.ty.clone()
            }
            _ => {
                let ident = variant.ident;
                ctxt.error_at(
                    ident,
                    format!(
                        "each variant of a document must hold a struct of its own: `{ident}({ident})`, where `{ident}` derives \
                         `Document` with `#[document(variant_of = {name})]`"
                    ),
                );
                continue;
            }
        };
        if valid
            .iter()
            .any(|(_, other)| type_text(other) == type_text(&ty))
        {
            ctxt.error_at(
                &ty,
                "another variant holds this struct already: each variant needs a struct of its own",
            );
            continue;
        }
        valid.push((variant, ty));
    }
    valid
}

fn model_constant(ty: &Type, private: &PrivatePath) -> TokenStream {
    with_span(quote!(<#ty as #private::Document>::MODEL), ty.span())
}

/// Returns the accessor of a stored name, if the name is a valid identifier.
fn accessor_ident(name: &str, span: Span) -> Option<Ident> {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name != "_";
    if !is_word || matches!(name, "self" | "Self" | "super" | "crate") {
        return None;
    }
    Some(match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, span),
        Err(_) => Ident::new_raw(name, span),
    })
}
