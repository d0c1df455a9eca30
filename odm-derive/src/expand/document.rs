//! `#[derive(Document)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, GenericParam, ext::IdentExt, spanned::Spanned};

use super::{private, quiet, where_bounds, with_params};
use crate::{
    attr::{Container, Direction, IndexAttr, Key, Options},
    ctxt::Ctxt,
    model::{Field, Model},
};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = Container::parse(ctxt, input, "document", &["collection", "index"]);
    let model = Model::parse(ctxt, input, "Document")?;
    if container.collection.is_none() {
        ctxt.error(
            &input.ident,
            "in which collection? Say `#[document(collection = \"…\")]`",
        );
    }
    if model.serde.other_form {
        ctxt.error(
            &input.ident,
            "a document is stored as its own fields: serde's `transparent`, `from`, `try_from` and `into` cannot be honoured",
        );
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        ctxt.error(lifetime, "a document owns its values: it has no lifetimes");
    }
    let id = find_id(ctxt, &model)?;
    let collection = container
        .collection
        .as_ref()
        .map_or_else(String::new, syn::LitStr::value);
    let private = private(&container.krate);

    let fields = fields(&model, id, &private);
    let implementation = implementation(&model, id, &collection, &container.indexes, &private);
    let closed = closed(&model, &private);
    let layout = ctxt.is_clean().then(|| model.layout_checks(&private));
    Some(quote!(#fields #implementation #closed #layout))
}

fn find_id<'m, 'a>(ctxt: &mut Ctxt, model: &'m Model<'a>) -> Option<&'m Field<'a>> {
    let id = model.fields.iter().find(|field| field.stored == "_id");
    match id {
        None => {
            ctxt.error(
                &model.input.ident,
                "no field is stored as `_id`: give the id `#[serde(rename = \"_id\")]`",
            );
            return model.fields.first();
        }
        Some(id) => {
            if !id.layout.is_plain() {
                ctxt.error(id.ty, "the `_id` is one value: it has no layout");
            }
            if !id.indexes.is_empty() {
                ctxt.error(
                    id.ident,
                    "the `_id` always has a unique index: leave `#[index]` out",
                );
            }
        }
    }
    id
}

/// The field tree.
fn fields(model: &Model<'_>, id: &Field<'_>, private: &TokenStream) -> TokenStream {
    let input = model.input;
    let (name, vis, ident) = (&input.ident, &input.vis, model.fields_ident());
    let (decl, names) = with_params(&input.generics, &quote!(), &quote!());
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let used = input
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(&param.ident),
            _ => None,
        });
    let accessors = model.fields.iter().map(|field| {
        let role = if std::ptr::eq(field, id) {
            quote!(#private::role::Id)
        } else {
            quote!(#private::role::Own)
        };
        field.accessor(
            private,
            &quote!(self.path),
            [&quote!(#name #names), &role, &quote!(#private::shape::One)],
        )
    });
    let doc = format!(
        "The fields of [`{}`], for filters, sorts, updates and joins.",
        name.unraw()
    );
    let quiet = quiet();
    quote! {
        #[doc = #doc]
        #quiet
        #vis struct #ident #decl #where_clause {
            path: #private::Path,
            of: ::core::marker::PhantomData<fn() -> (#(#used,)*)>,
        }

        #[automatically_derived]
        #quiet
        impl #impl_generics #private::FromPath for #ident #names #where_clause {
            fn from_path(path: #private::Path) -> Self {
                Self { path, of: ::core::marker::PhantomData }
            }
        }

        #[automatically_derived]
        #quiet
        impl #impl_generics #ident #names #where_clause {
            #(#accessors)*
        }
    }
}

fn implementation(
    model: &Model<'_>,
    id: &Field<'_>,
    collection: &str,
    compound: &[IndexAttr],
    private: &TokenStream,
) -> TokenStream {
    let input = model.input;
    let (name, ident) = (&input.ident, model.fields_ident());
    let (id_ident, id_ty) = (id.ident, id.ty);
    let text = name.unraw().to_string();
    let (_, names) = with_params(&input.generics, &quote!(), &quote!());
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let stored = model.fields.iter().map(|field| {
        let (rust, stored) = (field.ident.unraw().to_string(), &field.stored);
        quote!((#rust, #stored))
    });
    let rewrites = model.rewrites(private);
    let validation = model.validation(private, &quote!(#private::Path::ROOT));
    let indexes = model
        .fields
        .iter()
        .flat_map(|field| {
            field
                .indexes
                .iter()
                .map(move |options| field_index(field, options, private))
        })
        .chain(compound.iter().map(|index| compound_index(index, private)));
    let quiet = quiet();
    quote! {
        #[automatically_derived]
        #quiet
        impl #impl_generics #private::Document for #name #names #where_clause {
            type Id = #id_ty;
            type Fields = #ident #names;
            const COLLECTION: &'static str = #collection;
            const MODEL: #private::Model = #private::Model {
                name: #text,
                collection: #collection,
                fields: &[#(#stored),*],
                rewrites: #rewrites,
            };
            fn id(&self) -> &#id_ty {
                &self.#id_ident
            }
            fn validate(&self) -> #private::Result<()> {
                #validation
            }
            fn indexes() -> #private::Vec<#private::Index> {
                ::std::vec![#(#indexes),*]
            }
        }
    }
}

fn field_index(field: &Field<'_>, options: &Options, private: &TokenStream) -> TokenStream {
    let key = Key {
        path: vec![field.ident.clone()],
        direction: if options.descending {
            Direction::Descending
        } else {
            Direction::Ascending
        },
    };
    index(std::slice::from_ref(&key), options, private)
}

fn compound_index(attr: &IndexAttr, private: &TokenStream) -> TokenStream {
    index(&attr.keys, &attr.options, private)
}

fn index(keys: &[Key], options: &Options, private: &TokenStream) -> TokenStream {
    let ttl = options.expire_after_seconds.is_some();
    let keys = keys.iter().map(|key| {
        let direction = match key.direction {
            Direction::Ascending => quote!(Ascending),
            Direction::Descending => quote!(Descending),
        };
        let steps = key.path.iter().map(|step| quote_spanned!(step.span()=> .#step()));
        let call = if ttl { quote!(index_date) } else { quote!(index_key) };
        quote_spanned! {key.span()=>
            #private::#call(<Self as #private::Document>::fields() #(#steps)*, #private::Direction::#direction)
        }
    });
    let mut set = Vec::new();
    if options.unique {
        set.push(quote!(index.unique = true;));
    }
    if options.sparse {
        set.push(quote!(index.sparse = true;));
    }
    if let Some(partial) = &options.partial {
        set.push(quote_spanned! {partial.span()=>
            index.partial = #private::index_partial::<Self, _>(#partial);
        });
    }
    if let Some(seconds) = &options.expire_after_seconds {
        set.push(
            quote!(index.expire_after = #private::Some(#private::Duration::from_secs(#seconds));),
        );
    }
    if let Some(name) = &options.name {
        set.push(quote!(index.name = ::std::string::String::from(#name);));
    }
    quote! {{
        let mut index = #private::Index::new(::std::vec![#(#keys),*]);
        #(#set)*
        index
    }}
}

/// Every model that this one refers to must be in its schema.
fn closed(model: &Model<'_>, private: &TokenStream) -> TokenStream {
    let input = model.input;
    let name = &input.ident;
    let (decl, _) = with_params(
        &input.generics,
        &quote!(__Schema: #private::Schema,),
        &quote!(),
    );
    let (_, names) = with_params(&input.generics, &quote!(), &quote!());
    let bounds = where_bounds(&input.generics);
    let types = model.closed_types();
    let quiet = quiet();
    quote! {
        #[automatically_derived]
        #quiet
        impl #decl #private::Closed<__Schema> for #name #names
        where
            #bounds
            #(#types: #private::Closed<__Schema>,)*
        {}
    }
}
