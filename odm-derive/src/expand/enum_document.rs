//! `#[derive(Document)]` of an enum: one collection with documents of several models.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{DataEnum, DeriveInput, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Code, Private,
    document::{index, root_tree},
    fields::{at, closed, layout_function, of_stored},
    scope::in_any_scope,
    text, where_bounds, with_params,
};
use crate::{
    attr::{
        Before, Container, Filled, ID_HAS_AN_INDEX, IndexAttr, Layout, OPTIONS_BEHIND_A_SEMICOLON,
        What,
    },
    ctxt::Ctxt,
    variant::{Content, Enum, Repr, Variant},
};

/// What `#[document(…)]` can say of an enum, beside `crate`.
const SETTINGS: &[&str] = &["collection", "index", "shared", "timestamps", "version"];

/// An enum, each variant of which holds a struct that is a model too.
struct Kinds<'a> {
    input: &'a DeriveInput,
    private: Private,
    collection: String,
    /// The field that tells the variants apart.
    tag: String,
    /// Its accessor, if its name can be one.
    tag_ident: Option<Ident>,
    variants: Vec<(Variant<'a>, Type)>,
    /// The first of them, from which is taken what all have in common.
    first: Type,
    shared: Vec<Shared>,
    filled: Vec<Filled>,
    indexes: Vec<IndexAttr>,
    /// Some variants are missing here, which is reported.
    is_partial: bool,
}

/// A field that every variant has.
struct Shared {
    ident: Ident,
    ty: Type,
    role: TokenStream,
}

pub(super) fn expand(ctxt: &mut Ctxt, input: &DeriveInput, data: &DataEnum) -> Option<TokenStream> {
    let kinds = Kinds::parse(ctxt, input, data)?;
    let (tree, implementation) = (kinds.tree(), kinds.implementation());
    let types = kinds.types();
    let closed = closed(input, types.iter(), false, &kinds.private);
    let variants = kinds.variants();
    let checks = ctxt.is_clean().then(|| kinds.checks());
    let reach = in_any_scope(input, &kinds.private);
    let mut code = tree;
    code.extend([quote!(#implementation #reach #variants #closed #checks).into()]);
    Some(code.finish(&kinds.private))
}

impl<'a> Kinds<'a> {
    fn parse(ctxt: &mut Ctxt, input: &'a DeriveInput, data: &'a DataEnum) -> Option<Self> {
        let container = Container::parse(ctxt, input, "document", SETTINGS);
        let collection = container.collection.as_ref().map(syn::LitStr::value);
        if collection.is_none() && !container.says_where(&input.attrs) {
            ctxt.error(
                &input.ident,
                "in which collection? Say `#[document(collection = \"…\")]`",
            );
        }
        if let Some(lifetime) = input.generics.lifetimes().next() {
            ctxt.error(lifetime, "a document owns its values: it has no lifetimes");
            return None;
        }
        let parsed = Enum::parse(ctxt, input, data);
        let tag = match parsed.as_ref().map(|parsed| &parsed.repr) {
            Some(Repr::Internal(tag)) => tag.clone(),
            other => {
                ctxt.error(&input.ident, not_a_document(other));
                return None;
            }
        };
        let Enum {
            variants, skipped, ..
        } = parsed?;
        for ident in skipped {
            ctxt.error(
                ident,
                "this variant is not stored, so it is no document: leave the `skip` out, or the variant",
            );
        }
        let variants = right_variants(ctxt, input, variants);
        let first = match variants.first() {
            Some((_, ty)) => ty.clone(),
            None => {
                if ctxt.is_clean() {
                    ctxt.error(&input.ident, "an enum without variants has no documents");
                }
                return None;
            }
        };
        let private = Private::of(&container.krate);
        let outside = private.outside();
        let own = quote!(#outside::role::Own);
        let filled_role = quote!(#outside::role::Filled);
        let mut shared: Vec<_> = container
            .shared
            .into_iter()
            .map(|(ident, ty)| Shared {
                ident,
                ty,
                role: own.clone(),
            })
            .collect();
        for Filled { what, field } in &container.filled {
            let ty = match what {
                What::Version => syn::parse_quote!(::std::primitive::i64),
                What::Created | What::Updated => syn::parse_quote!(#outside::DateTime),
                // No setting of an enum asks for them.
                What::Deleted
                | What::Scope
                | What::Id
                | What::Number
                | What::Inverse
                | What::Copy
                | What::Computed
                | What::Tally => continue,
            };
            shared.push(Shared {
                ident: field.clone(),
                ty,
                role: filled_role.clone(),
            });
        }
        let mut kinds = Self {
            input,
            private,
            collection: collection.unwrap_or_default(),
            tag_ident: accessor(&tag, input.ident.span()),
            tag,
            variants,
            first,
            shared,
            filled: container.filled,
            indexes: container.indexes,
            is_partial: !ctxt.is_clean(),
        };
        kinds.refuse_same_accessors(ctxt);
        kinds.refuse_wrong_indexes(ctxt);
        Some(kinds)
    }

    /// Each method of the field tree speaks of one thing.
    fn refuse_same_accessors(&mut self, ctxt: &mut Ctxt) {
        let mut taken: HashSet<Ident> = HashSet::from([Ident::new("id", Span::call_site())]);
        taken.extend(self.tag_ident.clone());
        self.shared.retain(|shared| {
            let is_new = taken.insert(shared.ident.clone());
            if !is_new {
                ctxt.error(
                    &shared.ident,
                    format!("`{}` is shared already", shared.ident),
                );
            }
            is_new
        });
        for (variant, _) in &mut self.variants {
            for method in [&variant.method, &variant.is] {
                if taken.contains(method) && !variant.is_hidden {
                    ctxt.error(
                        variant.ident,
                        format!(
                            "the method `{method}` would speak of the variant and of a field: call the variant otherwise, its \
                             stored name stays with `#[serde(rename = \"{}\")]`",
                            variant.stored
                        ),
                    );
                    variant.is_hidden = true;
                }
            }
        }
    }

    fn refuse_wrong_indexes(&mut self, ctxt: &mut Ctxt) {
        let shared = self.shared.iter().map(|shared| &shared.ident);
        let accessors: HashSet<String> = shared
            .chain(&self.tag_ident)
            .map(ToString::to_string)
            .chain(["id".to_owned()])
            .collect();
        let mut before = Before::default();
        self.indexes.retain(|index| {
            if let Some(option) =
                index.misplaced_option(|name| accessors.contains(&name.to_string()))
            {
                ctxt.error(option, OPTIONS_BEHIND_A_SEMICOLON);
                return false;
            }
            let mut firsts = index.keys.iter().filter_map(|key| key.path.first());
            if let Some(name) = firsts.find(|name| !accessors.contains(&name.to_string())) {
                ctxt.error(
                    name,
                    format!(
                        "an index of all variants is over what they share: add `shared({name}: …)`, or declare the index on the \
                         struct of one variant"
                    ),
                );
                return false;
            }
            if let Some(at) = index.keys.first().and_then(|key| key.path.first()) {
                before.refuse_same(ctxt, &index.keys, &index.options, at);
            }
            if let [key] = index.keys.as_slice()
                && let [name] = key.path.as_slice()
                && name == "id"
            {
                ctxt.error(name, ID_HAS_AN_INDEX);
            }
            true
        });
    }

    fn types(&self) -> Vec<Type> {
        self.variants.iter().map(|(_, ty)| ty.clone()).collect()
    }

    /// The field tree: what all variants have, and a closure for each of them.
    fn tree(&self) -> Code {
        let (private, vis) = (&self.private.outside(), &self.input.vis);
        let (_, own) = with_params(&self.input.generics, &quote!(), &quote!());
        let name = &self.input.ident;
        let this = quote!(#name #own);
        let first = &self.first;
        let id = quote_spanned!(first.span()=> <#first as #private::Document>::Id);
        let id = quote! {
            /// The `_id`.
            #[must_use]
            #vis fn id(&self) -> <#id as #private::Stored>::Fields<#this, #private::role::Id, #private::shape::One> {
                <#id as #private::Stored>::fields(self.path.then("_id"))
            }
        };
        let tag = self.tag_ident.as_ref().map(|ident| {
            let tag = &self.tag;
            quote! {
                /// Of which variant the document is.
                #[must_use]
                #vis fn #ident(&self) -> #private::Field<#this, ::std::string::String, #private::role::Filled, #private::shape::One> {
                    #private::FromPath::from_path(self.path.then(#tag))
                }
            }
        });
        let shared = self.shared.iter().map(|Shared { ident, ty, role }| {
            let tree = of_stored(
                ty,
                private,
                &quote!(Fields<#this, #role, #private::shape::One>),
            );
            let fields = of_stored(ty, private, &quote!(fields));
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
            let (is, method, docs) = (&variant.is, &variant.method, &variant.docs);
            let tag = self.tag(variant, private);
            let ident = variant.ident.unraw();
            let ask = format!("The document is a `{ident}`.");
            let say = format!("What is said of a `{ident}`, which the document then is.");
            let say = if docs.is_empty() {
                quote!(#[doc = #say])
            } else {
                quote!(#(#docs)*)
            };
            let fields = at(quote!(<#ty as #private::Document>::Fields), ty.span());
            let of_kind = at(quote!(#private::OfKind<#this, #ty>), ty.span());
            let said = at(quote!(#tag.of_kind::<#this, #ty, __X>(say)), ty.span());
            quote! {
                #[doc = #ask]
                #[must_use]
                #vis fn #is(&self) -> #private::Filter<#this> {
                    #tag.filter(&self.path)
                }

                #say
                #vis fn #method<__X: #of_kind>(
                    &self,
                    say: impl ::core::ops::FnOnce(#fields) -> __X,
                ) -> <__X as #of_kind>::Out {
                    #said
                }
            }
        });
        root_tree(
            self.input,
            quote!(#id #tag #(#shared)* #(#methods)*),
            &self.private,
        )
    }

    fn tag(&self, variant: &Variant<'_>, private: &Private) -> TokenStream {
        let (tag, stored) = (&self.tag, &variant.stored);
        quote!(#private::Tag::Field(#tag, #stored))
    }

    fn implementation(&self) -> TokenStream {
        let (private, input) = (&self.private, self.input);
        let (name, tree) = (&input.ident, crate::model::fields_ident(input));
        let text = name.unraw().to_string();
        let (_, names) = with_params(&input.generics, &quote!(), &quote!());
        let (impl_generics, _, where_clause) = input.generics.split_for_impl();
        let (collection, tag, first) = (&self.collection, &self.tag, &self.first);
        let types = self.types();
        let models: Vec<_> = types.iter().map(|ty| model_of(ty, private)).collect();
        let first_model = model_of(first, private);
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
            .map(|(variant, _)| self.tag(variant, private));
        let id = quote_spanned!(first.span()=> <#first as #private::Document>::Id);
        let fields = self.tag_ident.iter().map(|ident| {
            let rust = ident.unraw().to_string();
            quote!((#rust, #tag))
        });
        let shared = self.shared.iter().map(|Shared { ident, .. }| {
            let rust = ident.unraw().to_string();
            quote!((#rust, #private::stored_or_own(&#first_model, #rust)))
        });
        let own_indexes = self
            .indexes
            .iter()
            .map(|attr| index(&attr.keys, &attr.options, false, private));
        let checks = self.model_checks().map(|check| quote!(const { #check };));
        let same = types.iter().map(|ty| {
            at(
                quote!(#private::SameId::<#id>::same(<#ty as #private::Document>::id(one))),
                ty.span(),
            )
        });
        let each = |code: fn(&Type, &Private) -> TokenStream| {
            types.iter().map(move |ty| at(code(ty, private), ty.span()))
        };
        let validate =
            each(|ty, private| quote!(<#ty as #private::Document>::check_bounds_of(one, place)));
        let looks = each(|ty, private| quote!(<#ty as #private::Document>::variants(one, found);));
        let indexes = each(|ty, private| quote!(#private::variant_indexes::<#ty>()));
        let taken = each(|ty, private| quote!(<#ty as #private::Document>::take_filled(one, from)));
        let read = each(|ty, private| quote!(<#ty as #private::Document>::from_stored(raw)));
        // Where a variant was refused, so that nothing of this ever runs.
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
                    rewrites: false #(|| #models.rewrites)*,
                    rounds: false #(|| #models.rounds)*,
                    filled: #first_model.filled,
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
                fn check_bounds_of(&self, place: &#private::Checked<'_>) -> #private::Result<()> {
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
                fn variants(&self, found: &mut #private::Variants) {
                    #(found.known(#models.fields);)*
                    match self {
                        #(Self::#idents(one) => {
                            found.variant(#tags);
                            #looks
                        })*
                        #rest
                    }
                }
                fn take_filled(&mut self, from: Self) {
                    match (self, from) {
                        #((Self::#idents(one), Self::#idents(from)) => #taken,)*
                        _ => {}
                    }
                }
                fn from_stored(raw: &#private::RawDocument) -> #private::Result<Self> {
                    match #private::stored_tag(raw, #tag) {
                        #(#private::Some(#stored) => #read.map(Self::#idents),)*
                        _ => #private::of_no_variant(raw, #tag),
                    }
                }
            }

            // A bound on all lifetimes is asked for only where the implementation is used.
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Whole for #name #names
            where
                #bounds
                #(for<'__a> #types: #private::Whole,)*
            {}
        }
    }

    /// What the enum says of each variant's model.
    fn variants(&self) -> TokenStream {
        let pairs = self
            .variants
            .iter()
            .map(|(variant, ty)| (&variant.stored, ty));
        has_variants(
            self.input,
            &self.collection,
            &self.tag,
            pairs,
            &self.private,
        )
    }

    /// The generated checks that the compiler makes of the types.
    fn checks(&self) -> TokenStream {
        let private = &self.private;
        let name = &self.input.ident;
        let (_, own, _) = self.input.generics.split_for_impl();
        let models = self
            .variants
            .iter()
            .map(|(_, ty)| at(quote!(#private::variant::<#ty, #name #own>();), ty.span()));
        let shared = self.variants.iter().flat_map(|(_, variant)| {
            self.shared.iter().map(move |Shared { ident, ty, .. }| {
                let tree = quote!(<#variant as #private::Document>::fields());
                let place = at(quote!(#private::shared(#tree.#ident())), ident.span());
                let holds = at(quote!(.holds::<#ty, #variant>()), ty.span());
                quote!(#place #holds;)
            })
        });
        let types = layout_function(&self.input.generics, models.chain(shared));
        // Of a type with parameters the models are checked where its values are.
        let is_plain = self.input.generics.params.is_empty();
        let models = self.model_checks().filter(|_| is_plain);
        quote!(#types #(const _: () = #models;)*)
    }

    /// Checks of what the models of the variants say, at compile time.
    fn model_checks(&self) -> impl Iterator<Item = TokenStream> {
        let (private, tag) = (&self.private, &self.tag);
        let has = |what: &[What]| self.filled.iter().any(|filled| what.contains(&filled.what));
        let (version, updated) = (has(&[What::Version]), has(&[What::Updated]));
        let filled: Vec<_> = self
            .filled
            .iter()
            .map(|filled| filled.field.unraw().to_string())
            .collect();
        let first = model_of(&self.first, private);
        self.variants.iter().flat_map(move |(_, ty)| {
            let model = model_of(ty, private);
            let clash = format!(
                "a field of this struct is stored as `{tag}`, where the enum has its tag: rename one of them"
            );
            let otherwise = format!(
                "`version` and `timestamps` are said of the enum `{}` and of the struct of each variant alike, with fields of the \
                 same stored names",
                self.input.ident.unraw()
            );
            let mut checks = vec![
                quote_spanned!(ty.span()=> ::core::assert!(#private::leaves_to(#tag, &#model), #clash)),
                quote_spanned! {ty.span()=>
                    ::core::assert!(
                        #private::is_filled_as(&#model, &#first, &[#(#filled),*], [#version, #updated]),
                        #otherwise
                    )
                },
            ];
            checks.extend(self.shared.iter().map(|shared| {
                let rust = shared.ident.unraw().to_string();
                let message = format!(
                    "`{rust}` is stored under different names by the variants: give it the same `rename` and `rename_all` in each"
                );
                quote_spanned! {shared.ident.span()=>
                    ::core::assert!(#private::stores_alike(&#model, &#first, #rust), #message)
                }
            }));
            checks
        })
    }
}

/// What tells the models of an enum's variants where their documents are, and how they are told apart.
pub(crate) fn has_variants<'v>(
    input: &DeriveInput,
    collection: &str,
    tag: &str,
    variants: impl Iterator<Item = (&'v String, &'v Type)>,
    private: &Private,
) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    let each = variants.map(|(stored, ty)| {
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::HasVariant<#ty> for #name #own #where_clause {
                const COLLECTION: &'static str = #collection;
                const TAG: (&'static str, &'static str) = (#tag, #stored);
            }
        }
    });
    quote!(#(#each)*)
}

/// Why an enum in this representation cannot be a document, and what to do.
fn not_a_document(repr: Option<&Repr>) -> &'static str {
    match repr {
        Some(Repr::Adjacent(..)) => {
            "a document has its `_id` and its tag side by side, but with `content` serde stores the `_id` inside of that: leave \
             the `content` out, `#[serde(tag = \"kind\")]`"
        }
        Some(_) => {
            "a document has its `_id` and a field that tells its variants apart side by side, but serde stores this enum as \
             `{\"Variant\": {…}}`: say `#[serde(tag = \"kind\")]`"
        }
        None => {
            "a document has a field that tells its variants apart, and in this form of the enum there is none: say \
             `#[serde(tag = \"kind\")]` instead"
        }
    }
}

/// The variants that hold a model, with the types of these; the rest is reported.
fn right_variants<'a>(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    variants: Vec<Variant<'a>>,
) -> Vec<(Variant<'a>, Type)> {
    let name = &input.ident;
    let mut right: Vec<(Variant<'a>, Type)> = Vec::new();
    for variant in variants {
        let ty = match &variant.content {
            Content::Newtype(item) if matches!(item.layout, Layout::Plain) && !item.native => {
                item.ty.clone()
            }
            _ => {
                let ident = variant.ident;
                ctxt.error(
                    ident,
                    format!(
                        "a variant of a document holds a struct of its own, by which it is found, inserted and updated: \
                         `{ident}({ident})`, where `{ident}` derives `Document` with `#[document(variant_of = {name})]`"
                    ),
                );
                continue;
            }
        };
        if right.iter().any(|(_, other)| text(other) == text(&ty)) {
            ctxt.error(
                &ty,
                "another variant holds this struct already: each has one of its own, by which it is found, inserted and updated",
            );
            continue;
        }
        right.push((variant, ty));
    }
    right
}

fn model_of(ty: &Type, private: &Private) -> TokenStream {
    at(quote!(<#ty as #private::Document>::MODEL), ty.span())
}

/// The accessor of a stored name, if that can be one.
fn accessor(name: &str, span: Span) -> Option<Ident> {
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
