//! The code that documents and embedded structs share: what follows from the fields.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{DeriveInput, ExprPath, Generics, Ident, Type, spanned::Spanned};

use super::{Private, any, around, where_bounds, with_params};
use crate::{
    attr::{Layout, SerdeDefault},
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// The generated checks that each field's type fits its attribute.
    pub(crate) fn layout_checks(&self, private: &Private) -> TokenStream {
        let right = self.fields.iter().filter(|field| field.is_right);
        let checks = right.filter_map(|field| {
            let ty = field.ty;
            let fits = match &field.layout {
                Layout::Plain if field.native => quote!(Native),
                Layout::EmbedMany(_) if field.native => quote!(Natives),
                Layout::Plain => quote!(Plain),
                Layout::Embed => quote!(Embeds),
                Layout::EmbedMany(_) => quote!(EmbedsMany),
                // Its elements have checks of their own.
                Layout::Overflow(_) | Layout::ReferenceOverflow(_) => return None,
                Layout::Reference => quote!(Refers),
                Layout::ReferenceMany(_) => quote!(RefersMany),
                Layout::Wrong => return None,
            };
            let kind = field.of_stored(private, &quote!(Kind));
            // An embedded struct with a default has fields that are nowhere stored.
            let is_there = (field.default.is_some() && matches!(field.layout, Layout::Embed))
                .then(|| quote_spanned!(ty.span()=> #private::reads_as_nothing::<#ty>();));
            Some(quote_spanned! {ty.span()=> <#kind as #private::#fits<#ty>>::check(); #is_there})
        });
        layout_function(&self.input.generics, checks)
    }

    /// The generated body of `variants`, for a value `self`.
    pub(crate) fn look_for_variants(&self, private: &Private) -> TokenStream {
        let looks = self.fields.iter().map(|field| {
            let (ident, name) = (field.ident, &field.stored);
            let variants = field.of_stored(private, &quote!(variants));
            quote!(found.field(#name, |found| #variants(&self.#ident, found));)
        });
        quote!(#(#looks)*)
    }

    /// The generated body of `validate`, for a value `self` at a `place`; nothing if all are right.
    pub(crate) fn validation(&self, private: &Private) -> Option<TokenStream> {
        let checks = self
            .fields
            .iter()
            .filter(|field| !field.layout.is_plain())
            .map(|field| {
                let (ident, name) = (field.ident, &field.stored);
                let count = field.of_stored(private, &quote!(count));
                // What it has outside is there already, or refused where it is inserted.
                let validate = match field.layout.overflow() {
                    Some(_) => at(quote!(#private::Overflow::validate_elements), field.ty.span()),
                    None => field.of_stored(private, &quote!(validate)),
                };
                let len = field.layout.max().map(
                    |max| quote!(#private::validate_len(#count(&self.#ident), &place.then(#name), #max)?;),
                );
                quote! {
                    #len
                    #validate(&self.#ident, &place.then(#name))?;
                }
            })
            .collect::<TokenStream>();
        around(&checks, |checks| quote!(#checks #private::Ok(())))
    }

    /// The fields that may refer to other models, or hold some that do.
    fn nested(&self) -> impl Iterator<Item = &Field<'a>> {
        self.fields
            .iter()
            // A type inside itself asks for nothing new, and the compiler would go round in a circle.
            .filter(|field| !field.layout.is_plain() && !mentions(field.ty, &self.input.ident))
    }

    /// The generated proof that a schema which has what the fields refer to has all that this type refers to.
    pub(crate) fn closed(&self, private: &Private) -> TokenStream {
        closed(
            self.input,
            self.nested().map(|field| field.ty),
            false,
            private,
        )
    }

    /// The same for a model whose hooks may run in one schema alone; `hooks` is where they are asked for.
    pub(crate) fn closed_with(&self, hooks: Option<&syn::Path>, private: &Private) -> TokenStream {
        let counted = self.counted(private);
        let types = self.nested().map(|field| field.ty).chain(&counted);
        closed(self.input, types, hooks.is_some(), private)
    }

    /// The generated answer to whether a value may be stored less exactly than it is.
    pub(crate) fn rounds(&self, private: &Private) -> Option<TokenStream> {
        let own = self.fields.iter().filter(|field| field.native);
        let nested = own
            .chain(self.nested())
            .map(|field| field.of_stored(private, &quote!(ROUNDS)));
        any(nested)
    }

    /// The generated answer to whether a stored value may hold a field elsewhere, or not at all.
    pub(crate) fn rewrites(&self, private: &Private) -> Option<TokenStream> {
        if self.fields.iter().any(|field| field.default.is_some()) {
            return Some(quote!(true));
        }
        let nested = self
            .nested()
            .map(|field| field.of_stored(private, &quote!(REWRITES)));
        any(nested)
    }
}

/// The generated function in which the compiler checks layouts.
pub(super) fn layout_function(
    generics: &Generics,
    checks: impl Iterator<Item = TokenStream>,
) -> TokenStream {
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    quote! {
        const _: () = {
            fn layout #impl_generics () #where_clause { #(#checks)* }
        };
    }
}

/// The generated proof that a schema which has what these types refer to has all that the input refers to.
pub(super) fn closed<'t>(
    input: &DeriveInput,
    types: impl Iterator<Item = &'t Type>,
    has_hooks: bool,
    private: &Private,
) -> TokenStream {
    let name = &input.ident;
    let (decl, _) = with_params(
        &input.generics,
        &quote!(__Schema: #private::Schema,),
        &quote!(),
    );
    let (_, own, _) = input.generics.split_for_impl();
    let bounds = where_bounds(&input.generics);
    let hooks = has_hooks.then(|| quote!(__Schema: #private::RunsHooksOf<#name #own>,));
    let bounds = quote!(#bounds #(#types: #private::Closed<__Schema>,)* #hooks);
    let bounds = around(&bounds, |bounds| quote!(where #bounds));
    quote! {
        #[automatically_derived]
        impl #decl #private::Closed<__Schema> for #name #own #bounds {}
    }
}

/// An item of `<Type as Stored>`, with all its tokens at one place: the compiler says the same of the same place only
/// once, so a type that cannot be stored is one error.
pub(super) fn of_stored(ty: &Type, private: &Private, item: &TokenStream) -> TokenStream {
    let span = ty.span();
    let ty = at(ty.to_token_stream(), span);
    let item = at(item.clone(), span);
    quote_spanned!(span=> <#ty as #private::Stored>::#item)
}

impl Field<'_> {
    fn of_stored(&self, private: &Private, item: &TokenStream) -> TokenStream {
        of_stored(self.ty, private, item)
    }

    /// serde's `skip_serializing_if`, as a closure on a value.
    fn omits(&self) -> Option<TokenStream> {
        let function = self.skip_if.as_ref()?;
        // That it is no path serde says itself.
        let path: ExprPath = function.parse().ok()?;
        let ty = self.ty;
        Some(quote_spanned!(function.span()=> |value: &#ty| #path(value)))
    }

    /// The function of serde's `skip_serializing_if`, if it takes the type that the field has in a companion.
    ///
    /// That type can be another for embedded structs, which the functions of std take as well.
    pub(super) fn omits_new(&self) -> Option<ExprPath> {
        let path: ExprPath = self.skip_if.as_ref()?.parse().ok()?;
        let is_of_std = |path: &ExprPath| {
            let last = path.path.segments.last();
            last.is_some_and(|last| last.ident == "is_none" || last.ident == "is_empty")
        };
        let is_same = !matches!(
            self.layout,
            Layout::Embed | Layout::EmbedMany(_) | Layout::Overflow(_)
        );
        (is_same || is_of_std(&path)).then_some(path)
    }

    /// Whether `None` is stored as a missing value, as a closure.
    pub(crate) fn whether_none_is_omitted(&self, private: &Private) -> TokenStream {
        let (ty, omits) = (self.ty, self.omits());
        match omits {
            None => quote!(#private::omits_nothing),
            Some(omits) => quote!(|| #private::omits_none::<#ty>(#omits)),
        }
    }

    /// The same as a field of the model's data.
    pub(crate) fn omits_none(&self, private: &Private) -> TokenStream {
        let omits_none = self.whether_none_is_omitted(private);
        quote!(omits_none: #omits_none,)
    }

    /// Its accessor in a field tree: a place in `model` with this role and shape, at `path`.
    pub(crate) fn accessor(
        &self,
        private: &Private,
        path: &TokenStream,
        [model, role, shape]: [&TokenStream; 3],
    ) -> TokenStream {
        let (ident, vis, stored) = (self.ident, self.vis, &self.stored);
        let shape = match self.default {
            None => shape.clone(),
            Some(SerdeDefault::OfType) => {
                self.of_stored(private, &quote!(ShapeWithDefault<#shape>))
            }
            Some(SerdeDefault::Function) => quote!(#private::shape::Defaulted<#shape>),
        };
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
        let with_default = self.default.map(|_| quote!(.with_default()));
        let omitting = self.omits().map(|omits| {
            let ty = self.ty;
            quote!(.omitting(|value| #private::is_omitted::<#ty>(value, #omits)))
        });
        let body = quote_spanned!(self.ty.span()=> #fields(#path.#step #with_default #omitting));
        // What is told of the method is told of the field.
        let place = Span::call_site().located_at(ident.span());
        let head = quote_spanned!(place=> fn #ident(&self) -> #tree);
        quote! {
            #docs
            #[must_use]
            #vis #head { #body }
        }
    }
}

/// The tokens, with this span.
pub(super) fn at(tokens: TokenStream, span: Span) -> TokenStream {
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

/// Whether the type is spelled with this name.
pub(crate) fn mentions(ty: &Type, ident: &Ident) -> bool {
    fn any(tokens: TokenStream, ident: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(other) => other == *ident,
            TokenTree::Group(group) => any(group.stream(), ident),
            _ => false,
        })
    }
    any(ty.to_token_stream(), ident)
}
