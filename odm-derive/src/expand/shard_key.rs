//! Code generation for `shard_key(…)`: immutable fields, keys that identify a document for a write, and the required index.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints, fields::layout_function, insertable::clone_and_debug,
    with_params,
};
use crate::{
    attr::{IndexKey, IndexOptions, Layout, ManagedKind, ShardField},
    ctxt::Ctxt,
    model::{Field, Model, is_option},
};

/// The shard key of a model.
pub(crate) struct ShardKey<'m, 'a> {
    model: &'m Model<'a>,
    id: &'m Field<'a>,
    /// The fields in order, each with the token of the setting and whether the field is hashed.
    fields: Vec<(&'m Field<'a>, &'m Ident, bool)>,
    /// Whether the model has all fields of the setting.
    is_complete: bool,
}

impl<'m, 'a> ShardKey<'m, 'a> {
    /// Finds the fields of the shard key, and reports invalid fields.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        model: &'m Model<'a>,
        id: &'m Field<'a>,
        settings: &'m [ShardField],
    ) -> Option<Self> {
        let mut key = Self {
            model,
            id,
            fields: Vec::new(),
            is_complete: false,
        };
        for ShardField { name, is_hashed } in settings {
            let Some(field) = model.field_named(name) else {
                let names = model
                    .fields
                    .iter()
                    .map(|field| format!("`{}`", field.ident));
                let names: Vec<_> = names.collect();
                ctxt.error_at(
                    name,
                    format!(
                        "there is no field `{name}`: the model has {}",
                        names.join(", ")
                    ),
                );
                continue;
            };
            if key.has_field(field) {
                ctxt.error_at(name, "the field is in the shard key already: remove it");
                continue;
            }
            if *is_hashed && key.fields.iter().any(|(.., is_hashed)| *is_hashed) {
                ctxt.error_at(
                    name,
                    "only one field of a shard key can be hashed: remove this `hashed(…)`",
                );
            }
            if let Some(reason) = shard_field_error(field) {
                ctxt.error_at(name, reason);
            }
            key.fields.push((field, name, *is_hashed));
        }
        key.is_complete = key.fields.len() == settings.len();
        (!key.fields.is_empty()).then_some(key)
    }

    /// Returns whether the field is part of the shard key.
    pub(crate) fn has_field(&self, field: &Field<'_>) -> bool {
        self.fields
            .iter()
            .any(|(part, ..)| part.ident == field.ident)
    }

    /// Reports indexes that a collection with this shard key cannot have.
    pub(crate) fn ensure_indexes_allowed<'i>(
        &self,
        ctxt: &mut Ctxt,
        declared: impl Iterator<Item = (Vec<IndexKey>, &'i IndexOptions, &'i Ident)>,
    ) {
        if !self.is_complete {
            return;
        }
        let key: Vec<_> = self
            .fields
            .iter()
            .map(|(field, ..)| field.ident.to_string())
            .collect();
        for (keys, options, at) in declared {
            let of_index: Vec<_> = keys.iter().map(IndexKey::to_string).collect();
            let unsigned: Vec<_> = of_index
                .iter()
                .map(|key| key.trim_start_matches('-'))
                .collect();
            let begins_with_id = keys
                .first()
                .is_some_and(|key| key.path == [self.id.ident.clone()]);
            let begins_with_key =
                unsigned.len() >= key.len() && unsigned.iter().zip(&key).all(|(a, b)| a == b);
            if options.unique && !begins_with_id && !begins_with_key {
                ctxt.error_at(
                    at,
                    format!(
                        "a unique index of a sharded collection must begin with the shard key, because each shard knows only its \
                         own documents: `index({}, {}; unique)`",
                        key.join(", "),
                        of_index
                            .iter()
                            .filter(|path| !key.contains(path))
                            .cloned()
                            .collect::<Vec<_>>()
                            .join(", "),
                    ),
                );
            }
            if of_index == key && (options.sparse || options.partial.is_some()) {
                ctxt.error_at(
                    at,
                    "the index of the shard key must contain all documents: remove `sparse` and `partial`",
                );
            }
        }
    }

    /// Returns the fields of the key other than the `_id`.
    fn fields_beside_id(&self) -> impl Iterator<Item = &'m Field<'a>> {
        let fields = self.fields.iter().map(|(field, ..)| *field);
        fields.filter(|field| field.ident != self.id.ident)
    }

    /// Returns the members of the `Model` constant for the shard key.
    pub(crate) fn model_members(&self) -> TokenStream {
        let fields = self.fields.iter().map(|(field, ..)| &field.stored);
        let hashed = self.fields.iter().find(|(.., is_hashed)| *is_hashed);
        let hashed = hashed.map(|(field, ..)| {
            let stored = &field.stored;
            quote!(shard_key_hashed: ::core::option::Option::Some(#stored),)
        });
        quote!(shard_key: &[#(#fields),*], #hashed)
    }

    /// Returns the items of the `Document` implementation.
    pub(crate) fn impl_items(&self, private: &PrivatePath) -> TokenStream {
        let mut rest = self.fields_beside_id().peekable();
        let sharding = if rest.peek().is_none() {
            quote!(Unsharded)
        } else {
            let fields: Vec<_> = rest.collect();
            match fields.as_slice() {
                [scope] if scope.managed == Some(ManagedKind::Scope) => {
                    let ty = scope.ty;
                    quote!(ShardedInScope<#ty>)
                }
                _ => quote!(Sharded),
            }
        };
        let key_steps = self.fields_beside_id().map(|field| key_step(field));
        quote! {
            type Sharding = #private::#sharding;
            fn routed_key(&self) -> #private::Key<Self> {
                let id = <Self as #private::Document>::id(self);
                #private::Key::of_id(::core::clone::Clone::clone(id)) #(#key_steps)*
            }
        }
    }

    /// Returns checks that the types of the fields can be part of a shard key.
    pub(crate) fn type_checks(&self, private: &PrivatePath) -> TokenStream {
        let checks = self.fields.iter().map(|(field, at, _)| {
            let ty = field.ty;
            quote_spanned! {at.span()=>
                <<#ty as #private::Stored>::Kind as #private::Shards<#ty>>::check_layout();
            }
        });
        let layout = layout_function(&self.model.input.generics, checks);
        let is_generic = !self.model.input.generics.params.is_empty();
        let presence_checks = self.fields.iter().filter(|_| !is_generic).map(|(field, at, _)| {
            let ty = field.ty;
            quote_spanned! {at.span()=>
                const _: () = ::core::assert!(!<#ty as #private::Stored>::MAY_BE_NONE, #OPTIONAL_SHARD_FIELD);
            }
        });
        quote!(#layout #(#presence_checks)*)
    }

    /// Returns the struct that identifies a document for a write, if the `_id` alone does not.
    pub(crate) fn key_struct(&self, private: &PrivatePath) -> Option<GeneratedCode> {
        self.fields_beside_id().next()?;
        let input = self.model.input;
        let (name, vis) = (&input.ident, &input.vis);
        let key = format_ident!("{}Key", name.unraw());
        let (decl, _) = with_params(&input.generics, &quote!(), &quote!());
        let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
        let fields: Vec<_> = std::iter::once(self.id)
            .chain(self.fields_beside_id())
            .collect();
        let idents: Vec<_> = fields.iter().map(|field| field.ident).collect();
        let mut types: Vec<_> = fields
            .iter()
            .map(|field| field.ty.to_token_stream())
            .collect();
        // A type parameter of the model that no other field of the key uses is part of the id's type.
        if let (Some(id), Some(_)) = (types.first_mut(), input.generics.type_params().next()) {
            let full_path = private.full_path();
            *id = quote!(<#name #type_generics as #full_path::Document>::Id);
        }
        let declared = fields.iter().zip(&types).map(|(field, ty)| {
            let (ident, vis, docs) = (field.ident, field.vis, &field.docs);
            let doc = format!("The field `{}`.", field.stored);
            let docs = match docs.is_empty() {
                true => quote!(#[doc = #doc]),
                false => quote!(#(#docs)*),
            };
            quote!(#docs #vis #ident: #ty)
        });
        let doc = format!(
            "The key of a [`{}`] on a sharded cluster: its `_id`, and the rest of its shard key.",
            name.unraw()
        );
        let id = self.id.ident;
        let key_steps: Vec<_> = self
            .fields_beside_id()
            .map(|field| key_step(field))
            .collect();
        let clone_and_debug = clone_and_debug(&key, &input.generics, &idents, &types);
        let lints = allow_lints();
        let types = quote! {
            #[doc = #doc]
            #lints
            #vis struct #key #decl #where_clause {
                #(#declared,)*
            }
        };
        let rest = quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoKey<#name #type_generics> for #key #type_generics #where_clause {
                type Knows = #private::IdAndShardKey;
                fn into_key(self) -> #private::Key<#name #type_generics> {
                    #private::Key::of_id(self.#id) #(#key_steps)*
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoKey<#name #type_generics> for &#key #type_generics #where_clause {
                type Knows = #private::IdAndShardKey;
                fn into_key(self) -> #private::Key<#name #type_generics> {
                    #private::Key::of_id(::core::clone::Clone::clone(&self.#id)) #(#key_steps)*
                }
            }

            #clone_and_debug
        };
        Some(GeneratedCode { types, rest })
    }
}

const OPTIONAL_SHARD_FIELD: &str = "a field of a shard key must always be present, and an `Option` may be `None`: make the field the \
     value itself";

/// Returns why a field cannot be part of a shard key, judging by its declaration.
fn shard_field_error(field: &Field<'_>) -> Option<String> {
    let name = field.ident;
    match field.managed {
        None | Some(ManagedKind::Scope | ManagedKind::Id | ManagedKind::AutoId) => {}
        Some(_) => {
            return Some(format!(
                "`{name}` is a managed field, but the application must know the fields of a shard key: use another field"
            ));
        }
    }
    match field.layout {
        Layout::Plain | Layout::Reference | Layout::Invalid => {}
        _ => {
            return Some(format!(
                "the fields of a shard key must be single values, and `{name}` is an embedded struct, an array or a map: add a \
                 field to the document"
            ));
        }
    }
    if is_option(field.ty) {
        return Some(OPTIONAL_SHARD_FIELD.to_owned());
    }
    if field.default.is_some() || field.skip_if.is_some() {
        return Some(format!(
            "a field of a shard key must always be present: remove serde's `default` or `skip_serializing_if` from `{name}`"
        ));
    }
    None
}

/// Returns the method call that adds a field to a key.
fn key_step(field: &Field<'_>) -> TokenStream {
    let (ident, stored) = (field.ident, &field.stored);
    let place = Span::call_site().located_at(field.ty.span());
    quote_spanned!(place=> .with_field(#stored, &self.#ident))
}
