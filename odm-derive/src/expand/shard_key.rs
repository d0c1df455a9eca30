//! What follows from `shard_key(…)`: which fields never change, what names a document for a write, which index there is.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{
    Code, Private, fields::layout_function, insertable::clone_and_debug, quiet, with_params,
};
use crate::{
    attr::{Key, Layout, Options, ShardField, What},
    ctxt::Ctxt,
    model::{Field, Model, is_option},
};

/// The shard key of a model.
pub(crate) struct ShardKey<'m, 'a> {
    model: &'m Model<'a>,
    id: &'m Field<'a>,
    /// Its fields in order, where each is said, and whether it is hashed.
    fields: Vec<(&'m Field<'a>, &'m Ident, bool)>,
    /// Whether each field that was said is there.
    is_whole: bool,
}

impl<'m, 'a> ShardKey<'m, 'a> {
    /// Finds the fields, and reports what they cannot be.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        model: &'m Model<'a>,
        id: &'m Field<'a>,
        said: &'m [ShardField],
    ) -> Option<Self> {
        let mut key = Self {
            model,
            id,
            fields: Vec::new(),
            is_whole: false,
        };
        for ShardField { name, is_hashed } in said {
            let Some(field) = model.field_named(name) else {
                let names = model
                    .fields
                    .iter()
                    .map(|field| format!("`{}`", field.ident));
                let names: Vec<_> = names.collect();
                ctxt.error(
                    name,
                    format!(
                        "there is no field `{name}`: the model has {}",
                        names.join(", ")
                    ),
                );
                continue;
            };
            if key.has(field) {
                ctxt.error(name, "it is part of the shard key already");
                continue;
            }
            if *is_hashed && key.fields.iter().any(|(.., is_hashed)| *is_hashed) {
                ctxt.error(name, "only one field of a shard key is hashed");
            }
            if let Some(reason) = refuse(field) {
                ctxt.error(name, reason);
            }
            key.fields.push((field, name, *is_hashed));
        }
        key.is_whole = key.fields.len() == said.len();
        (!key.fields.is_empty()).then_some(key)
    }

    /// Whether the field is part of it.
    pub(crate) fn has(&self, field: &Field<'_>) -> bool {
        self.fields.iter().any(|(own, ..)| own.ident == field.ident)
    }

    /// Reports indexes that no collection with this shard key can have.
    pub(crate) fn refuse_indexes<'i>(
        &self,
        ctxt: &mut Ctxt,
        declared: impl Iterator<Item = (Vec<Key>, &'i Options, &'i Ident)>,
    ) {
        if !self.is_whole {
            return;
        }
        let key: Vec<_> = self
            .fields
            .iter()
            .map(|(field, ..)| field.ident.to_string())
            .collect();
        for (keys, options, at) in declared {
            let of_index: Vec<_> = keys.iter().map(Key::to_string).collect();
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
                ctxt.error(
                    at,
                    format!(
                        "a unique index of a sharded collection begins with the shard key, as a shard knows its own documents \
                         alone: `index({}, {}; unique)`",
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
                ctxt.error(
                    at,
                    "the index over the shard key has all documents: it is neither `sparse` nor `partial`",
                );
            }
        }
    }

    /// The fields that an id does not tell.
    fn rest(&self) -> impl Iterator<Item = &'m Field<'a>> {
        let fields = self.fields.iter().map(|(field, ..)| *field);
        fields.filter(|field| field.ident != self.id.ident)
    }

    /// What is said of it in the model.
    pub(crate) fn of_model(&self) -> TokenStream {
        let fields = self.fields.iter().map(|(field, ..)| &field.stored);
        let hashed = self.fields.iter().find(|(.., is_hashed)| *is_hashed);
        let hashed = hashed.map(|(field, ..)| {
            let stored = &field.stored;
            quote!(shard_key_hashed: ::core::option::Option::Some(#stored),)
        });
        quote!(shard_key: &[#(#fields),*], #hashed)
    }

    /// What is in the implementation of the model.
    pub(crate) fn items(&self, private: &Private) -> TokenStream {
        let mut rest = self.rest().peekable();
        let sharding = if rest.peek().is_none() {
            quote!(Unsharded)
        } else {
            let fields: Vec<_> = rest.collect();
            match fields.as_slice() {
                [scope] if scope.filled == Some(What::Scope) => {
                    let ty = scope.ty;
                    quote!(ShardedInScope<#ty>)
                }
                _ => quote!(Sharded),
            }
        };
        let with = self.rest().map(|field| with(field));
        quote! {
            type Sharding = #private::#sharding;
            fn routed_key(&self) -> #private::Key<Self> {
                let id = <Self as #private::Document>::id(self);
                #private::Key::of_id(::core::clone::Clone::clone(id)) #(#with)*
            }
        }
    }

    /// The generated checks that the types of its fields can be part of it.
    pub(crate) fn checks(&self, private: &Private) -> TokenStream {
        let checks = self.fields.iter().map(|(field, at, _)| {
            let ty = field.ty;
            quote_spanned! {at.span()=>
                <<#ty as #private::Stored>::Kind as #private::Shards<#ty>>::check();
            }
        });
        let layout = layout_function(&self.model.input.generics, checks);
        let is_generic = !self.model.input.generics.params.is_empty();
        let always_there = self.fields.iter().filter(|_| !is_generic).map(|(field, at, _)| {
            let ty = field.ty;
            quote_spanned! {at.span()=>
                const _: () = ::core::assert!(!<#ty as #private::Stored>::MAY_BE_NONE, #ALWAYS_THERE);
            }
        });
        quote!(#layout #(#always_there)*)
    }

    /// The struct that names a document for a write, if its id does not.
    pub(crate) fn struct_of_key(&self, private: &Private) -> Option<Code> {
        self.rest().next()?;
        let input = self.model.input;
        let (name, vis) = (&input.ident, &input.vis);
        let key = format_ident!("{}Key", name.unraw());
        let (decl, _) = with_params(&input.generics, &quote!(), &quote!());
        let (impl_generics, own, where_clause) = input.generics.split_for_impl();
        let fields: Vec<_> = std::iter::once(self.id).chain(self.rest()).collect();
        let idents: Vec<_> = fields.iter().map(|field| field.ident).collect();
        let mut types: Vec<_> = fields
            .iter()
            .map(|field| field.ty.to_token_stream())
            .collect();
        // A parameter of the model that is none of these types is one of this.
        if let (Some(id), Some(_)) = (types.first_mut(), input.generics.type_params().next()) {
            let outside = private.outside();
            *id = quote!(<#name #own as #outside::Document>::Id);
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
            "What names a [`{}`] on a sharded cluster: its `_id`, and the rest of its shard key.",
            name.unraw()
        );
        let id = self.id.ident;
        let with: Vec<_> = self.rest().map(|field| with(field)).collect();
        let clone_and_debug = clone_and_debug(&key, &input.generics, &idents, &types);
        let quiet = quiet();
        let types = quote! {
            #[doc = #doc]
            #quiet
            #vis struct #key #decl #where_clause {
                #(#declared,)*
            }
        };
        let rest = quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoKey<#name #own> for #key #own #where_clause {
                type Knows = #private::IdAndShardKey;
                fn into_key(self) -> #private::Key<#name #own> {
                    #private::Key::of_id(self.#id) #(#with)*
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoKey<#name #own> for &#key #own #where_clause {
                type Knows = #private::IdAndShardKey;
                fn into_key(self) -> #private::Key<#name #own> {
                    #private::Key::of_id(::core::clone::Clone::clone(&self.#id)) #(#with)*
                }
            }

            #clone_and_debug
        };
        Some(Code { types, rest })
    }
}

const ALWAYS_THERE: &str = "a shard key is of single values that are always there: an `Option` may be none, so let the field be the value itself";

/// Why a field cannot be part of a shard key, as far as its declaration tells.
fn refuse(field: &Field<'_>) -> Option<String> {
    let name = field.ident;
    match field.filled {
        None | Some(What::Scope | What::Id) => {}
        Some(_) => {
            return Some(format!(
                "the framework fills `{name}`, and a shard key is what the application knows of a document: take another field"
            ));
        }
    }
    match field.layout {
        Layout::Plain | Layout::Reference | Layout::Wrong => {}
        _ => {
            return Some(format!(
                "a shard key is of single values, and `{name}` is an embedded struct, an array or a map: give the document a field \
                 of its own for it"
            ));
        }
    }
    if is_option(field.ty) {
        return Some(ALWAYS_THERE.to_owned());
    }
    if field.default.is_some() || field.skip_if.is_some() {
        return Some(format!(
            "a shard key is of single values that are always there: `{name}` cannot have serde's `default` or `skip_serializing_if`"
        ));
    }
    None
}

/// The step that adds a field to a key.
fn with(field: &Field<'_>) -> TokenStream {
    let (ident, stored) = (field.ident, &field.stored);
    quote_spanned!(field.ty.span()=> .with(#stored, &self.#ident))
}
