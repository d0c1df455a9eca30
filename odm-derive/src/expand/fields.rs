//! Code generation that documents and embedded structs share.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{DeriveInput, ExprPath, Generics, Ident, Type, spanned::Spanned};

use super::{PrivatePath, any_of, where_bounds, with_params, wrap_nonempty};
use crate::{
    attr::{DerivedValue, Layout, SerdeDefault},
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// Returns checks that each field's type fits its attribute.
    pub(crate) fn layout_checks(&self, private: &PrivatePath) -> TokenStream {
        // `TreeAncestors` checks the type of the ancestors in a tree.
        let is_checked = |field: &&Field<'_>| {
            field.is_valid && !matches!(field.derived, Some(DerivedValue::Ancestors { .. }))
        };
        let right = self.fields.iter().filter(is_checked);
        let checks = right.filter_map(|field| {
            let ty = field.ty;
            let trait_name = match &field.layout {
                Layout::Plain if field.native => quote!(Native),
                Layout::Embed if field.native => quote!(EmbedsNatives),
                Layout::EmbedMany(_) if field.native => quote!(Natives),
                Layout::Plain => quote!(Plain),
                Layout::Embed => quote!(Embeds),
                Layout::EmbedMany(_) => quote!(EmbedsMany),
                // Overflow arrays have element checks of their own.
                Layout::Overflow(_) | Layout::ReferenceOverflow(_) => return None,
                Layout::Reference => quote!(Refers),
                Layout::ReferenceMany(_) => quote!(RefersMany),
                Layout::Invalid => return None,
            };
            let kind = field.stored_item(private, &quote!(Kind));
            // The default of an embedded struct has values that no document stores.
            let default_check = (field.default.is_some() && matches!(field.layout, Layout::Embed))
                .then(|| quote_spanned!(ty.span()=> #private::reads_as_nothing::<#ty>();));
            Some(quote_spanned! {ty.span()=> <#kind as #private::#trait_name<#ty>>::check_layout(); #default_check})
        });
        layout_function(&self.input.generics, checks)
    }

    /// Returns the generated body of `variants`, for a value `self`.
    pub(crate) fn look_for_variants(&self, private: &PrivatePath) -> TokenStream {
        let visits = self.fields.iter().map(|field| {
            let (ident, name) = (field.ident, &field.stored);
            let variants = field.stored_item(private, &quote!(variants));
            quote!(found.field(#name, |found| #variants(&self.#ident, found));)
        });
        quote!(#(#visits)*)
    }

    /// Returns the generated body of `validate`, for a value `self` at a `place`. Returns `None` if no field needs validation.
    pub(crate) fn validation_body(&self, private: &PrivatePath) -> Option<TokenStream> {
        let checks = self
            .fields
            .iter()
            .filter(|field| !field.layout.is_plain())
            .map(|field| {
                let (ident, name) = (field.ident, &field.stored);
                let count = field.stored_item(private, &quote!(count));
                // Spilled elements are stored already; an insert of a partially read array is rejected elsewhere.
                let validate = match field.layout.overflow() {
                    Some(_) => with_span(quote!(#private::Overflow::validate_elements), field.ty.span()),
                    None => field.stored_item(private, &quote!(validate)),
                };
                let len = field.layout.max().map(
                    |max| quote!(#private::validate_len(#count(&self.#ident), &place.subfield(#name), #max)?;),
                );
                quote! {
                    #len
                    #validate(&self.#ident, &place.subfield(#name))?;
                }
            })
            .collect::<TokenStream>();
        wrap_nonempty(&checks, |checks| quote!(#checks #private::Ok(())))
    }

    /// Returns the fields that may contain references.
    fn nested_fields(&self) -> impl Iterator<Item = &Field<'a>> {
        self.fields
            .iter()
            // A recursive type adds no new references, and a recursive bound would make the compiler report a cycle.
            .filter(|field| {
                !field.layout.is_plain() && !mentions_ident(field.ty, &self.input.ident)
            })
    }

    /// Returns the `TargetsInSchema` implementation: a schema with the targets of all fields contains all targets of this
    /// type.
    pub(crate) fn closed_impl(&self, private: &PrivatePath) -> TokenStream {
        closed_impl(
            self.input,
            self.nested_fields().map(|field| field.ty),
            false,
            private,
        )
    }

    /// Returns the `TargetsInSchema` implementation of a document. Models with hooks belong to a single schema; `hooks` is the
    /// setting, for error messages.
    pub(crate) fn document_closed_impl(
        &self,
        hooks: Option<&syn::Path>,
        private: &PrivatePath,
    ) -> TokenStream {
        let counted = self.child_models(private);
        let types = self.nested_fields().map(|field| field.ty).chain(&counted);
        closed_impl(self.input, types, hooks.is_some(), private)
    }

    /// Returns an expression for whether storing a value may lose precision.
    pub(crate) fn rounds_expression(&self, private: &PrivatePath) -> Option<TokenStream> {
        let native = self.fields.iter().filter(|field| field.native);
        let nested = native
            .chain(self.nested_fields())
            .map(|field| field.stored_item(private, &quote!(ROUNDS_VALUES)));
        any_of(nested)
    }

    /// Returns an expression for whether a stored document may lack a field of the value.
    pub(crate) fn rewrites_expression(&self, private: &PrivatePath) -> Option<TokenStream> {
        if self.fields.iter().any(|field| field.default.is_some()) {
            return Some(quote!(true));
        }
        let nested = self
            .nested_fields()
            .map(|field| field.stored_item(private, &quote!(HAS_SERDE_DEFAULTS)));
        any_of(nested)
    }
}

/// Returns a function in which the compiler checks layouts.
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

/// Returns the `TargetsInSchema` implementation: a schema with the targets of these types contains all targets of the input
/// type.
pub(super) fn closed_impl<'t>(
    input: &DeriveInput,
    types: impl Iterator<Item = &'t Type>,
    has_hooks: bool,
    private: &PrivatePath,
) -> TokenStream {
    let name = &input.ident;
    let (decl, _) = with_params(
        &input.generics,
        &quote!(__Schema: #private::Schema,),
        &quote!(),
    );
    let (_, type_generics, _) = input.generics.split_for_impl();
    let bounds = where_bounds(&input.generics);
    let hooks = has_hooks.then(|| quote!(__Schema: #private::RunsHooksOf<#name #type_generics>,));
    let bounds = quote!(#bounds #(#types: #private::TargetsInSchema<__Schema>,)* #hooks);
    let bounds = wrap_nonempty(&bounds, |bounds| quote!(where #bounds));
    quote! {
        #[automatically_derived]
        impl #decl #private::TargetsInSchema<__Schema> for #name #type_generics #bounds {}
    }
}

/// Returns an item of `<Type as Stored>` with all tokens at one span. The compiler reports equal errors at one span only once, so
/// a type that cannot be stored is a single error.
pub(super) fn stored_item(ty: &Type, private: &PrivatePath, item: &TokenStream) -> TokenStream {
    let span = ty.span();
    let ty = with_span(ty.to_token_stream(), span);
    let item = with_span(item.clone(), span);
    quote_spanned!(span=> <#ty as #private::Stored>::#item)
}

impl Field<'_> {
    fn stored_item(&self, private: &PrivatePath, item: &TokenStream) -> TokenStream {
        stored_item(self.ty, private, item)
    }

    /// Returns serde's `skip_serializing_if` as a closure over a value.
    fn skip_closure(&self) -> Option<TokenStream> {
        let function = self.skip_if.as_ref()?;
        // serde reports a string that is not a path.
        let path: ExprPath = function.parse().ok()?;
        let ty = self.ty;
        Some(quote_spanned!(function.span()=> |value: &#ty| #path(value)))
    }

    /// Returns the function of serde's `skip_serializing_if`, if the function accepts the type of the field in an insert struct.
    ///
    /// Embedded structs have a different type there, which std's `is_none` and `is_empty` accept as well.
    pub(super) fn insert_skip_path(&self) -> Option<ExprPath> {
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

    /// Returns a closure for whether `None` is stored as a missing value.
    pub(crate) fn omits_none_closure(&self, private: &PrivatePath) -> TokenStream {
        let (ty, omits) = (self.ty, self.skip_closure());
        match omits {
            None => quote!(#private::omits_nothing),
            Some(omits) => quote!(|| #private::omits_none::<#ty>(#omits)),
        }
    }

    /// Returns the closure as a member of the model's data.
    pub(crate) fn omits_none_member(&self, private: &PrivatePath) -> TokenStream {
        let omits_none = self.omits_none_closure(private);
        quote!(omits_none: #omits_none,)
    }

    /// Returns the accessor in a field tree: a place in `model` with this role and shape, at `path`.
    pub(crate) fn accessor_method(
        &self,
        private: &PrivatePath,
        path: &TokenStream,
        [model, role, shape]: [&TokenStream; 3],
    ) -> TokenStream {
        let (ident, vis, stored) = (self.ident, self.vis, &self.stored);
        let shape = match self.default {
            None => shape.clone(),
            Some(SerdeDefault::OfType) => {
                self.stored_item(private, &quote!(ShapeWithDefault<#shape>))
            }
            Some(SerdeDefault::Function) => quote!(#private::shape::Defaulted<#shape>),
        };
        let tree = self.stored_item(private, &quote!(Fields<#model, #role, #shape>));
        let fields = self.stored_item(private, &quote!(fields));
        let docs = if self.docs.is_empty() {
            let text = format!("The field `{stored}`.");
            quote!(#[doc = #text])
        } else {
            let docs = &self.docs;
            quote!(#(#docs)*)
        };
        let step = match self.layout.max() {
            Some(max) => quote!(bounded_subfield(#stored, #max)),
            None => quote!(subfield(#stored)),
        };
        let with_default = self.default.map(|_| quote!(.with_default()));
        let omitting = self.skip_closure().map(|omits| {
            let ty = self.ty;
            quote!(.omitting(|value| #private::is_omitted::<#ty>(value, #omits)))
        });
        let caseless = self.is_caseless.then(|| quote!(.caseless()));
        let body =
            quote_spanned!(self.ty.span()=> #fields(#path.#step #with_default #omitting #caseless));
        // The span of the field makes IDEs show the field for the method, and messages about the method point to the field.
        let place = Span::call_site().located_at(ident.span());
        let head = quote_spanned!(place=> fn #ident(&self) -> #tree);
        quote! {
            #docs
            #[must_use]
            #vis #head { #body }
        }
    }
}

/// Returns the tokens with this span.
pub(super) fn with_span(tokens: TokenStream, span: Span) -> TokenStream {
    let each = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut spanned = Group::new(group.delimiter(), with_span(group.stream(), span));
            spanned.set_span(span);
            spanned.into()
        }
        mut token => {
            token.set_span(span);
            token
        }
    });
    each.collect()
}

/// Returns whether the type contains this identifier.
pub(crate) fn mentions_ident(ty: &Type, ident: &Ident) -> bool {
    fn any_mentions(tokens: TokenStream, ident: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(other) => other == *ident,
            TokenTree::Group(group) => any_mentions(group.stream(), ident),
            _ => false,
        })
    }
    any_mentions(ty.to_token_stream(), ident)
}
