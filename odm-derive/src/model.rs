//! The input of `Document` and `Embedded`, understood.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Fields, Ident, Token, Type, Visibility, ext::IdentExt,
    punctuated::Punctuated, spanned::Spanned,
};

use crate::{
    attr::{Layout, Options, SerdeContainer, SerdeField, named, parse_field},
    ctxt::Ctxt,
    expand::{quiet, where_bounds, with_params},
};

/// A struct with named fields.
pub(crate) struct Model<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) serde: SerdeContainer,
}

/// A field that is stored.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) ty: &'a Type,
    pub(crate) docs: Vec<&'a Attribute>,
    /// The name under which serde writes it.
    pub(crate) stored: String,
    pub(crate) layout: Layout,
    pub(crate) indexes: Vec<Options>,
    /// serde's `alias` or `default` on it: a document may hold it elsewhere or not at all.
    pub(crate) rewrites: bool,
}

impl<'a> Model<'a> {
    /// Understands a struct with named fields; `what` is the derive that asks.
    pub(crate) fn parse(ctxt: &mut Ctxt, input: &'a DeriveInput, what: &str) -> Option<Self> {
        let serde = SerdeContainer::parse(ctxt, &input.attrs);
        let fields = named_fields(ctxt, input, what)?;
        let fields: Vec<_> = fields
            .iter()
            .filter_map(|field| Field::parse(ctxt, field, &serde))
            .collect();
        refuse_same_names(ctxt, &fields);
        Some(Self {
            input,
            fields,
            serde,
        })
    }

    /// The name of the generated field tree.
    pub(crate) fn fields_ident(&self) -> Ident {
        format_ident!("{}Fields", self.input.ident.unraw())
    }

    /// The generated checks that each field's type fits its attribute.
    pub(crate) fn layout_checks(&self, private: &TokenStream) -> TokenStream {
        let checks = self.fields.iter().filter_map(|field| {
            let ty = field.ty;
            let fits = match &field.layout {
                Layout::Plain => quote!(Plain),
                Layout::Embed => quote!(Embeds),
                Layout::EmbedMany(_) => quote!(EmbedsMany),
                Layout::Reference => quote!(Refers),
                Layout::ReferenceMany(_) => quote!(RefersMany),
                Layout::Wrong => return None,
            };
            let kind = field.of_stored(private, &quote!(Kind));
            Some(quote_spanned! {ty.span()=> <#kind as #private::#fits<#ty>>::check();})
        });
        let (impl_generics, _, where_clause) = self.input.generics.split_for_impl();
        let quiet = quiet();
        quote! {
            const _: () = {
                #quiet
                fn layout #impl_generics () #where_clause { #(#checks)* }
            };
        }
    }

    /// The generated body of `validate`, for a value `self` and the path before its fields.
    pub(crate) fn validation(&self, private: &TokenStream, path: &TokenStream) -> TokenStream {
        let checks = self
            .fields
            .iter()
            .filter(|field| !field.layout.is_plain())
            .map(|field| {
                let (ident, name) = (field.ident, &field.stored);
                let count = field.of_stored(private, &quote!(count));
                let validate = field.of_stored(private, &quote!(validate));
                let len = field.layout.max().map(
                    |max| quote!(#private::validate_len(#count(&self.#ident), &path.then(#name), #max)?;),
                );
                quote! {
                    #len
                    #validate(&self.#ident, &path.then(#name))?;
                }
            })
            .collect::<TokenStream>();
        if checks.is_empty() {
            return quote!(#private::Ok(()));
        }
        quote! {
            let path = #path;
            #checks
            #private::Ok(())
        }
    }

    /// The fields that may refer to other models, or hold some that do.
    fn nested(&self) -> impl Iterator<Item = &Field<'a>> {
        self.fields
            .iter()
            // A type inside itself asks for nothing new, and the compiler would go round in a circle.
            .filter(|field| !field.layout.is_plain() && !mentions(field.ty, &self.input.ident))
    }

    /// The generated proof that a schema which has what the fields refer to has all that this type refers to.
    pub(crate) fn closed(&self, private: &TokenStream) -> TokenStream {
        let name = &self.input.ident;
        let (decl, _) = with_params(
            &self.input.generics,
            &quote!(__Schema: #private::Schema,),
            &quote!(),
        );
        let (_, own, _) = self.input.generics.split_for_impl();
        let bounds = where_bounds(&self.input.generics);
        let types = self.nested().map(|field| field.ty);
        let quiet = quiet();
        quote! {
            #[automatically_derived]
            #quiet
            impl #decl #private::Closed<__Schema> for #name #own
            where
                #bounds
                #(#types: #private::Closed<__Schema>,)*
            {}
        }
    }

    /// The generated answer to whether a stored value may hold a field elsewhere, or not at all.
    pub(crate) fn rewrites(&self, private: &TokenStream) -> TokenStream {
        let own = self.serde.default || self.fields.iter().any(|field| field.rewrites);
        let nested = self
            .nested()
            .map(|field| field.of_stored(private, &quote!(REWRITES)));
        quote!(#own #(|| #nested)*)
    }
}

impl<'a> Field<'a> {
    fn parse(ctxt: &mut Ctxt, field: &'a syn::Field, container: &SerdeContainer) -> Option<Self> {
        let ident = field.ident.as_ref()?;
        let serde = SerdeField::parse(ctxt, &field.attrs);
        if serde.skip {
            for attr in ["embed", "reference", "index"]
                .iter()
                .flat_map(|name| named(&field.attrs, name))
            {
                ctxt.error(attr, "serde skips this field: it is not stored");
            }
            return None;
        }
        let stored = stored_name(ident, &serde, container);
        if let Some(reason) = refuse_name(&stored) {
            match &serde.rename {
                Some(rename) => ctxt.error(rename, reason),
                None => ctxt.error(ident, reason),
            }
        }
        let layout = Layout::parse(ctxt, &field.attrs, &field.ty);
        let indexes = named(&field.attrs, "index")
            .filter_map(|attr| ctxt.ok(parse_field(attr)))
            .collect();
        Some(Self {
            ident,
            vis: &field.vis,
            ty: &field.ty,
            docs: named(&field.attrs, "doc").collect(),
            stored,
            layout,
            indexes,
            rewrites: !serde.aliases.is_empty() || serde.default,
        })
    }

    /// An item of `<Type as Stored>`, with all its tokens at one place: the compiler says the same of the same place only
    /// once, so a type that cannot be stored is one error.
    fn of_stored(&self, private: &TokenStream, item: &TokenStream) -> TokenStream {
        let span = self.ty.span();
        let ty = at(self.ty.to_token_stream(), span);
        let item = at(item.clone(), span);
        quote_spanned!(span=> <#ty as #private::Stored>::#item)
    }

    /// Its accessor in a field tree: a place in `model` with this role and shape, at `path`.
    pub(crate) fn accessor(
        &self,
        private: &TokenStream,
        path: &TokenStream,
        [model, role, shape]: [&TokenStream; 3],
    ) -> TokenStream {
        let (ident, vis, stored) = (self.ident, self.vis, &self.stored);
        let tree = self.of_stored(private, &quote!(Fields<#model, #role, #shape>));
        let fields = self.of_stored(private, &quote!(fields));
        let docs = if self.docs.is_empty() {
            let text = format!("The field `{stored}`.");
            quote!(#[doc = #text])
        } else {
            let docs = &self.docs;
            quote!(#(#docs)*)
        };
        let step = match self.layout.max() {
            Some(max) => quote!(then_bounded(#stored, #max)),
            None => quote!(then(#stored)),
        };
        let body = quote_spanned!(self.ty.span()=> #fields(#path.#step));
        quote! {
            #docs
            #[must_use]
            #vis fn #ident(&self) -> #tree {
                #body
            }
        }
    }
}

/// The tokens, with this span.
fn at(tokens: TokenStream, span: Span) -> TokenStream {
    let each = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut moved = Group::new(group.delimiter(), at(group.stream(), span));
            moved.set_span(span);
            moved.into()
        }
        mut token => {
            token.set_span(span);
            token
        }
    });
    each.collect()
}

/// The input of `Projection`: names and types, without layout.
pub(crate) struct Projected<'a> {
    pub(crate) fields: Vec<ProjectedField<'a>>,
}

/// A field that is read.
pub(crate) struct ProjectedField<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) stored: String,
}

impl<'a> Projected<'a> {
    pub(crate) fn parse(ctxt: &mut Ctxt, input: &'a DeriveInput) -> Option<Self> {
        let container = SerdeContainer::parse(ctxt, &input.attrs);
        let fields = named_fields(ctxt, input, "Projection")?
            .iter()
            .filter_map(|field| {
                let ident = field.ident.as_ref()?;
                let serde = SerdeField::parse(ctxt, &field.attrs);
                (!serde.skip).then(|| ProjectedField {
                    ident,
                    ty: &field.ty,
                    stored: stored_name(ident, &serde, &container),
                })
            })
            .collect();
        Some(Self { fields })
    }
}

/// The fields of a struct that has names for them.
fn named_fields<'a>(
    ctxt: &mut Ctxt,
    input: &'a DeriveInput,
    what: &str,
) -> Option<&'a Punctuated<syn::Field, Token![,]>> {
    match &input.data {
        Data::Struct(data) => {
            if let Fields::Named(fields) = &data.fields {
                return Some(&fields.named);
            }
            ctxt.error(
                &input.ident,
                format!(
                    "`{what}` needs a struct with named fields: they are the fields of the document"
                ),
            );
        }
        Data::Enum(data) => ctxt.error(
            data.enum_token,
            format!("`{what}` is for structs: put the enum into a field of one"),
        ),
        Data::Union(data) => ctxt.error(
            data.union_token,
            format!("`{what}` is for structs: serde cannot store a union"),
        ),
    }
    None
}

/// The name under which serde writes a field.
fn stored_name(ident: &Ident, field: &SerdeField, container: &SerdeContainer) -> String {
    let name = ident.unraw().to_string();
    match (&field.rename, container.rename_all) {
        (Some(rename), _) => rename.value(),
        (None, Some(rule)) => rule.field(&name),
        (None, None) => name,
    }
}

/// Two fields of one name would be written over each other.
fn refuse_same_names(ctxt: &mut Ctxt, fields: &[Field<'_>]) {
    for (i, field) in fields.iter().enumerate() {
        if fields[..i]
            .iter()
            .any(|before| before.stored == field.stored)
        {
            ctxt.error(
                field.ident,
                format!("another field is stored as `{}` already", field.stored),
            );
        }
    }
}

fn refuse_name(stored: &str) -> Option<String> {
    let reason = if stored.is_empty() {
        "a stored field has a name"
    } else if stored.contains('.') {
        "a stored name has no dot: it would be read as a path"
    } else if stored.starts_with('$') {
        "a stored name does not begin with `$`: it would be read as an operator"
    } else if stored.contains('\0') {
        "a stored name has no null byte"
    } else if stored == "_odm" {
        "`_odm` holds the framework's bookkeeping"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

fn mentions(ty: &Type, ident: &Ident) -> bool {
    fn any(tokens: TokenStream, ident: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(other) => other == *ident,
            TokenTree::Group(group) => any(group.stream(), ident),
            _ => false,
        })
    }
    any(ty.to_token_stream(), ident)
}
