//! Code generation for inserts: a document is inserted as itself or, with managed fields, as an insert struct without these
//! fields.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, Generics, Ident, Path, ext::IdentExt, parse_quote, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints, fields::stored_item, where_bounds, with_params,
};
use crate::{
    attr::{ContainerAttrs, Layout, ManagedKind, attrs_named},
    model::{Field, Model},
};

/// The settings of a generated struct that serde reads.
#[derive(Clone, Copy)]
pub(crate) struct DeclaredWith<'a> {
    derives: &'a [Path],
    denies_unknown_fields: bool,
    /// Whether another derive can read serde's attributes of the struct.
    keeps_serde_attrs: bool,
}

impl<'a> DeclaredWith<'a> {
    pub(super) fn derives(derives: &'a [Path]) -> Self {
        Self {
            derives,
            denies_unknown_fields: false,
            // The derive of the projection.
            keeps_serde_attrs: true,
        }
    }

    pub(super) fn of_insert_struct(container: &'a ContainerAttrs) -> Self {
        Self {
            derives: &container.insert_derive,
            denies_unknown_fields: container.deny_unknown_fields.is_some(),
            keeps_serde_attrs: !container.insert_derive.is_empty(),
        }
    }
}

/// The error for `deny_unknown_fields` without an insert struct.
pub(super) const DENY_WITHOUT_INSERT_STRUCT: &str = "`deny_unknown_fields` applies to the insert struct, and the type is inserted as \
     itself, without an insert struct: remove the setting";

impl Model<'_> {
    /// Returns the `Insertable` implementation, with the insert struct if the model needs one.
    ///
    /// `says_filled` means that the model declares managed fields, even if the declarations are invalid.
    pub(crate) fn insertable_impl(
        &self,
        is_drafted: bool,
        declares_managed: bool,
        declared: DeclaredWith<'_>,
        private: &PrivatePath,
    ) -> GeneratedCode {
        if is_drafted || declares_managed || self.has_managed_fields() {
            return self.insert_struct(is_drafted, declared, private);
        }
        let name = &self.input.ident;
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        let implementation = quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::InsertedAsIs for #name #type_generics #where_clause {}
        };
        implementation.into()
    }

    fn insert_struct(
        &self,
        is_drafted: bool,
        declared: DeclaredWith<'_>,
        private: &PrivatePath,
    ) -> GeneratedCode {
        let name = &self.input.ident;
        let insert_struct = format_ident!("New{}", name.unraw());
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        let fields: Vec<_> = self
            .fields
            .iter()
            .filter(|field| field.managed.is_none())
            .collect();
        let types = fields.iter().map(|field| match is_drafted {
            true => field.new_type(&private.full_path()),
            false => field.ty.to_token_stream(),
        });
        let types: Vec<_> = types.collect();
        let idents: Vec<_> = fields.iter().map(|field| field.ident).collect();
        let doc = format!(
            "The insert struct of [`{}`]: all fields except the managed fields.",
            name.unraw()
        );
        let mut code =
            self.declare_struct(&insert_struct, &fields, &types, declared, &doc, private);
        let filled_by = |kind| self.fields.iter().any(|field| field.managed == Some(kind));
        // An `_id` with a number is composed during the insert, after the framework has assigned the number.
        let id = (filled_by(ManagedKind::Id) && !filled_by(ManagedKind::Number)).then(
            || quote!(let mut document = document; #private::Document::compose_id(&mut document)?;),
        );
        let now = (filled_by(ManagedKind::Created) || filled_by(ManagedKind::Updated))
            .then(|| quote!(let now = #private::DateTime::now();));
        let scope = match filled_by(ManagedKind::Scope) {
            true => quote!(scope),
            false => quote!(_),
        };
        let draft = match is_drafted {
            true => {
                let fields = fields
                    .iter()
                    .map(|field| field.put_field(&quote!(draft), private));
                let filled = self.fields.iter().filter_map(|field| {
                    let value = initial_value(field, private)?;
                    Some(field.put_value(&quote!(draft), &value, private))
                });
                quote! {
                    let mut draft = #private::RawDraft::default();
                    #(#fields)*
                    #(#filled)*
                    #private::Ok(draft.finish())
                }
            }
            false => {
                let filled = self.fields.iter().filter_map(|field| {
                    let (value, ident) = (initial_value(field, private)?, field.ident);
                    Some(quote!(#ident: #value))
                });
                let skipped = &self.skipped;
                quote! {
                    let document = #name {
                        #(#idents: self.#idents,)*
                        #(#filled,)*
                        #(#skipped: ::core::default::Default::default(),)*
                    };
                    #id
                    #private::Ok(#private::Draft::of(document))
                }
            }
        };
        code.rest.extend(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Insertable for #insert_struct #type_generics #where_clause {
                type Document = #name #type_generics;
                fn into_draft(self, #scope: &#private::Scope) -> #private::Result<#private::Draft<#name #type_generics>> {
                    #now
                    #draft
                }
            }
        });
        code
    }

    /// Returns an insert struct or a projection with these fields. serde reads the struct from the stored names, with the attributes
    /// of the model's fields.
    pub(super) fn declare_struct(
        &self,
        declared_struct: &Ident,
        given_fields: &[&Field<'_>],
        types: &[TokenStream],
        declared_with: DeclaredWith<'_>,
        doc: &str,
        private: &PrivatePath,
    ) -> GeneratedCode {
        let DeclaredWith {
            derives,
            denies_unknown_fields,
            keeps_serde_attrs,
        } = declared_with;
        let is_read_plainly = given_fields.iter().all(|field| field.is_read_plainly);
        let reads_with_serde = keeps_serde_attrs || !is_read_plainly;
        let vis = &self.input.vis;
        let (decl, _) = with_params(&self.input.generics, &quote!(), &quote!());
        let (_, _, where_clause) = self.input.generics.split_for_impl();
        let full_path = private.full_path();
        let fields = given_fields.iter().zip(types).map(|(field, ty)| {
            let (ident, vis, docs) = (field.ident, field.vis, &field.docs);
            let serde = reads_with_serde.then(|| {
                let (serde_attrs, stored) = (attrs_named(field.attrs, "serde"), &field.stored);
                let name = (!field.has_own_name).then(|| quote!(#[serde(rename = #stored)]));
                quote!(#(#serde_attrs)* #name)
            });
            let derive_attrs = field.attrs_of_derives(derives);
            quote!(#(#docs)* #serde #(#derive_attrs)* #vis #ident: #ty)
        });
        let serde = reads_with_serde.then(|| {
            let path = quote!(#full_path::serde).to_string();
            let deny = denies_unknown_fields.then(|| quote!(#[serde(deny_unknown_fields)]));
            quote! {
                #[derive(#full_path::Deserialize #(, #derives)*)]
                // A type parameter has its bounds from the model.
                #[serde(crate = #path, bound(deserialize = ""))]
                #deny
            }
        });
        let reading = (!reads_with_serde).then(|| {
            self.reading_impls(
                declared_struct,
                given_fields,
                denies_unknown_fields,
                private,
            )
        });
        let idents: Vec<_> = given_fields.iter().map(|field| field.ident).collect();
        let lints = allow_lints();
        let declared = quote! {
            #[doc = #doc]
            #lints
            #serde
            #vis struct #declared_struct #decl #where_clause {
                #(#fields,)*
            }
        };
        GeneratedCode {
            types: declared,
            rest: [
                reading.unwrap_or_default(),
                clone_and_debug(declared_struct, &self.input.generics, &idents, types),
                default_impl(declared_struct, &self.input.generics, &idents, types),
            ]
            .into_iter()
            .collect(),
        }
    }

    /// Returns the implementation of `Deserialize` by the library: as serde's derive, with much less code.
    fn reading_impls(
        &self,
        declared_struct: &Ident,
        given_fields: &[&Field<'_>],
        denies_unknown_fields: bool,
        private: &PrivatePath,
    ) -> TokenStream {
        let (_, type_generics, where_clause) = self.input.generics.split_for_impl();
        let idents = given_fields.iter().map(|field| field.ident);
        let mut reading_generics = self.input.generics.clone();
        reading_generics.params.insert(0, parse_quote!('__de));
        let (reading_generics, _, _) = reading_generics.split_for_impl();
        let name = declared_struct.unraw().to_string();
        let stored = given_fields.iter().map(|field| &field.stored);
        let positions: Vec<_> = (0..given_fields.len())
            .map(Literal::usize_unsuffixed)
            .collect();
        let locals: Vec<_> = (0..given_fields.len())
            .map(|position| format_ident!("__field{position}"))
            .collect();
        // The tokens of the type can come from a macro, which does not see the variables here.
        let place = |field: &Field<'_>| Span::call_site().located_at(field.ty.span());
        let reads = given_fields
            .iter()
            .zip(&locals)
            .map(|(field, local)| quote_spanned!(place(field)=> __reader.read(&mut #local)?));
        let values = given_fields.iter().zip(&locals).zip(&positions);
        let values = values.map(|((field, local), position)| match field.default {
            Some(_) => quote_spanned!(place(field)=> #local.unwrap_or_default()),
            None => quote_spanned!(place(field)=> __reader.complete(#position, #local)?),
        });
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #reading_generics #private::ReadFields<'__de> for #declared_struct #type_generics #where_clause {
                const NAME: &'static str = #name;
                const FIELDS: &'static [&'static str] = &[#(#stored),*];
                const DENIES_UNKNOWN_FIELDS: bool = #denies_unknown_fields;
                fn read_fields<__R: #private::FieldReader<'__de>>(
                    mut __reader: __R,
                ) -> ::core::result::Result<Self, __R::Error> {
                    #(let mut #locals = #private::None;)*
                    while let #private::Some(__field) = __reader.next_field()? {
                        match __field {
                            #(#positions => #reads,)*
                            _ => {}
                        }
                    }
                    #private::Ok(Self { #(#idents: #values,)* })
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #reading_generics #private::Deserialize<'__de> for #declared_struct #type_generics #where_clause {
                fn deserialize<__D: #private::serde::Deserializer<'__de>>(
                    deserializer: __D,
                ) -> ::core::result::Result<Self, __D::Error> {
                    #private::read_struct(deserializer)
                }
            }
        }
    }

    /// Returns the type that applications write for a new embedded struct.
    pub(crate) fn new_type(&self, is_drafted: bool) -> TokenStream {
        if !is_drafted {
            return quote!(Self);
        }
        let insert_struct = format_ident!("New{}", self.input.ident.unraw());
        let (_, type_generics, _) = self.input.generics.split_for_impl();
        quote!(#insert_struct #type_generics)
    }

    /// Returns the insert struct of an embedded struct.
    pub(crate) fn embedded_insert_struct(
        &self,
        declared: DeclaredWith<'_>,
        private: &PrivatePath,
    ) -> GeneratedCode {
        let name = &self.input.ident;
        let insert_struct = format_ident!("New{}", name.unraw());
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        let fields = self.fields.iter().filter(|field| field.managed.is_none());
        let given_fields: Vec<_> = fields.collect();
        let full_path = &private.full_path();
        let types: Vec<_> = given_fields
            .iter()
            .map(|field| field.new_type(full_path))
            .collect();
        let doc = format!(
            "The insert struct of the embedded [`{}`]: all fields except the managed fields.",
            name.unraw()
        );
        let mut code = self.declare_struct(
            &insert_struct,
            &given_fields,
            &types,
            declared,
            &doc,
            private,
        );
        let statements = given_fields
            .iter()
            .map(|field| field.put_field(&quote!(fields), private));
        code.rest.extend(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Serialize for #insert_struct #type_generics #where_clause {
                fn serialize<__S: #private::Serializer>(
                    &self,
                    serializer: __S,
                ) -> ::core::result::Result<__S::Ok, __S::Error> {
                    let mut fields = #private::NewFields::new(serializer)?;
                    #(#statements)*
                    fields.end()
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::IntoValue<#name #type_generics> for #insert_struct #type_generics #where_clause {
                fn into_value(self) -> #private::Result<#private::RawBson> {
                    #private::encode_new(&self)
                }
            }
        });
        code
    }

    /// Returns the generated body of `take_filled`.
    pub(crate) fn take_managed(&self) -> TokenStream {
        let filled = self.fields.iter().filter(|field| field.managed.is_some());
        let idents = filled.map(|field| field.ident);
        quote!(#(self.#idents = from.#idents;)*)
    }

    /// Returns the stored name of the field with this managed kind.
    pub(crate) fn stored_name_of(&self, kind: ManagedKind) -> Option<&str> {
        let mut fields = self.fields.iter();
        let field = fields.find(|field| field.managed == Some(kind))?;
        Some(&field.stored)
    }
}

/// Returns implementations of `Clone` and `Debug` for a generated struct, for field types that implement these traits.
pub(super) fn clone_and_debug(
    name: &Ident,
    generics: &Generics,
    idents: &[&Ident],
    types: &[TokenStream],
) -> TokenStream {
    let (impl_generics, type_generics, _) = generics.split_for_impl();
    let bounds = where_bounds(generics);
    let text = name.to_string();
    let names = idents.iter().map(|ident| ident.unraw().to_string());
    quote! {
        // A bound with `for<'__a>` is checked only where the implementation is used.
        #[automatically_derived]
        impl #impl_generics ::core::clone::Clone for #name #type_generics
        where
            #bounds
            #(for<'__a> #types: ::core::clone::Clone,)*
        {
            fn clone(&self) -> Self {
                Self { #(#idents: ::core::clone::Clone::clone(&self.#idents),)* }
            }
        }

        #[automatically_derived]
        impl #impl_generics ::core::fmt::Debug for #name #type_generics
        where
            #bounds
            #(for<'__a> #types: ::core::fmt::Debug,)*
        {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(#text)#(.field(#names, &self.#idents))*.finish()
            }
        }
    }
}

/// Returns an implementation of `Default` for an insert struct, for field types that implement the trait.
fn default_impl(
    name: &Ident,
    generics: &Generics,
    idents: &[&Ident],
    types: &[TokenStream],
) -> TokenStream {
    let (impl_generics, type_generics, _) = generics.split_for_impl();
    let bounds = where_bounds(generics);
    quote! {
        #[automatically_derived]
        impl #impl_generics ::core::default::Default for #name #type_generics
        where
            #bounds
            #(for<'__a> #types: ::core::default::Default,)*
        {
            fn default() -> Self {
                Self { #(#idents: ::core::default::Default::default(),)* }
            }
        }
    }
}

/// The attributes that derives of insert structs read.
const ATTRIBUTES_OF_DERIVES: [(&str, &str); 3] = [
    ("JsonSchema", "schemars"),
    ("ToSchema", "schema"),
    ("Validate", "garde"),
];

impl Field<'_> {
    /// Returns the type of the field in an insert struct.
    fn new_type(&self, private: &PrivatePath) -> TokenStream {
        match self.layout {
            Layout::Embed | Layout::EmbedMany(_) | Layout::Overflow(_) => {
                stored_item(self.ty, private, &quote!(New))
            }
            _ => self.ty.to_token_stream(),
        }
    }

    /// Returns the attributes for the derives of a generated struct.
    fn attrs_of_derives(&self, derives: &[Path]) -> Vec<&Attribute> {
        let names = derives.iter().filter_map(|derive| {
            let name = derive.segments.last()?.ident.to_string();
            ATTRIBUTES_OF_DERIVES
                .iter()
                .find(|(derive, _)| *derive == name)
        });
        let names: Vec<_> = names.map(|(_, attribute)| *attribute).collect();
        let attrs = self.attrs.iter();
        attrs
            .filter(|attr| names.iter().any(|name| attr.path().is_ident(name)))
            .collect()
    }

    /// Returns code that writes the field of an insert struct `self`, as serde would.
    fn put_field(&self, target: &TokenStream, private: &PrivatePath) -> TokenStream {
        let (ident, stored) = (self.ident, &self.stored);
        let ensure_complete = self.layout.overflow().map(
            |_| quote!(self.#ident.ensure_complete(&#private::Path::ROOT.subfield(#stored))?;),
        );
        let statements = self.put_value(target, &quote!(self.#ident), private);
        let statements = match self.insert_skip_path() {
            Some(omits) => quote!(if !#omits(&self.#ident) { #statements }),
            None => statements,
        };
        quote!(#ensure_complete #statements)
    }

    /// Returns code that writes a value of the field's type.
    fn put_value(
        &self,
        target: &TokenStream,
        value: &TokenStream,
        private: &PrivatePath,
    ) -> TokenStream {
        let stored = &self.stored;
        match self.native {
            true => quote!(#target.put(#stored, &#private::NativeValue(&#value))?;),
            false => quote!(#target.put(#stored, &#value)?;),
        }
    }
}

/// Returns the initial value of a managed field; `None` for copies and computed fields, which the insert fills later.
fn initial_value(field: &Field<'_>, private: &PrivatePath) -> Option<TokenStream> {
    let (ty, kind) = (field.ty, field.managed?);
    if !field.is_valid {
        // An invalid field has an error already; a placeholder avoids type errors.
        return Some(quote!((|| -> #ty { ::core::unreachable!() })()));
    }
    Some(match kind {
        ManagedKind::Version => quote_spanned!(ty.span()=> <#ty as #private::Version>::FIRST),
        ManagedKind::Created | ManagedKind::Updated => {
            quote_spanned!(ty.span()=> <#ty as #private::Timestamp>::from_datetime(now))
        }
        ManagedKind::Deleted => quote_spanned!(ty.span()=> <#ty as #private::DeletedAt>::NEVER),
        ManagedKind::Id => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
        ManagedKind::AutoId => quote_spanned!(ty.span()=> <#ty as #private::AutoId>::generate()),
        ManagedKind::Number => quote_spanned!(ty.span()=> <#ty as #private::AssignedNumber>::NONE),
        ManagedKind::Sequence => {
            quote_spanned!(ty.span()=> <#ty as #private::SequenceInteger>::NONE)
        }
        ManagedKind::Scope => quote_spanned!(ty.span()=> scope.value::<#ty>()?),
        ManagedKind::Inverse => {
            quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default())
        }
        ManagedKind::Rollup => {
            quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default())
        }
        ManagedKind::Copy | ManagedKind::Computed => return None,
    })
}
