//! `#[derive(Embedded)]` of an enum: closure methods for the variants.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{DataEnum, DeriveInput, GenericParam, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints,
    embedded::{expand_value, place_tree, whole_projection},
    fields::{closed_impl, layout_function, mentions_ident, stored_item},
    with_params,
};
use crate::{
    attr::{Layout, no_links_message},
    ctxt::Ctxt,
    model::{Field, VARIANT, fields_ident},
    variant::{EnumInput, EnumRepr, TupleItem, VariantContent, VariantInput},
};

pub(super) fn expand(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    data: &DataEnum,
    private: &PrivatePath,
) -> GeneratedCode {
    let Some(parsed) = EnumInput::parse(ctxt, input, data).filter(EnumInput::has_data) else {
        return expand_value(ctxt, input, None, private).into();
    };
    let methods = parsed
        .variants
        .iter()
        .filter(|variant| !variant.is_hidden)
        .map(|variant| parsed.variant_methods(variant, &private.full_path()));
    let tree = place_tree(input, methods, private);
    let trees = parsed
        .variants
        .iter()
        .filter_map(|variant| parsed.variant_tree(variant, private));
    let implementation = parsed.stored_impl(private);
    let closed = closed_impl(
        input,
        parsed.nested_parts().map(|part| part.ty),
        false,
        private,
    );
    let checks = ctxt.is_clean().then(|| parsed.type_checks(private));
    let mut code = tree;
    code.extend(trees);
    code.extend([quote!(#implementation #closed #checks).into()]);
    code
}

/// A typed part of a variant: a field, with or without a name.
struct VariantPart<'p> {
    ty: &'p Type,
    layout: &'p Layout,
    /// The path from the field with the enum to the part.
    steps: Vec<String>,
    /// The variable that a pattern binds the part to.
    binding: Ident,
    name: Option<&'p Ident>,
    rewrites: bool,
    native: bool,
}

impl<'a> EnumInput<'a> {
    /// Returns the methods `is_card` and, for a variant with content, `card`.
    fn variant_methods(&self, variant: &VariantInput<'_>, private: &PrivatePath) -> TokenStream {
        let (vis, is_method, method) = (&self.input.vis, &variant.is_method, &variant.method);
        let tag = self.tag_expression(variant, private);
        // The variant `other` is a negation: no known tag matches. Across several array elements a negation would have a
        // different meaning, so the method needs a single value.
        let single_value_bound = variant
            .other
            .then(|| quote!(#private::closure_result::Condition: #private::AllowedAt<__S>,));
        let name = variant.ident.unraw();
        let doc = format!("Matches values of the variant `{name}`.");
        let test_method = quote! {
            #[doc = #doc]
            #[must_use]
            #vis fn #is_method(&self) -> #private::Filter<__M>
            where
                __S: #private::Queryable,
                #single_value_bound
            {
                #tag.filter(&#private::Place::path(&self.whole))
            }
        };
        let Some((fields, path, build)) = self.closure_parts(variant, private) else {
            return test_method;
        };
        let docs = if variant.docs.is_empty() {
            let text =
                format!("Applies a condition or an update to values of the variant `{name}`.");
            quote!(#[doc = #text])
        } else {
            let docs = &variant.docs;
            quote!(#(#docs)*)
        };
        quote! {
            #test_method

            #docs
            #vis fn #method<__X: #private::OfVariant<__M, __S>>(
                &self,
                build: impl ::core::ops::FnOnce(#(#fields),*) -> __X,
            ) -> <__X as #private::OfVariant<__M, __S>>::Out
            where
                <__X as #private::OfVariant<__M, __S>>::Kind: #private::AllowedAt<__S>,
            {
                #tag.within(&#private::Place::path(&self.whole), |path| #path, #build)
            }
        }
    }

    /// Returns the parameter types of a closure about the variant, an expression that builds the parameters from the `path` of
    /// the enum, and the call of the closure `build`. Returns `None` for a variant without content.
    fn closure_parts(
        &self,
        variant: &VariantInput<'_>,
        private: &PrivatePath,
    ) -> Option<(Vec<TokenStream>, TokenStream, TokenStream)> {
        let parts = self.variant_parts(variant);
        if parts.is_empty() {
            return None;
        }
        let path = |steps: &[String], layout: Option<&Layout>| {
            let steps = steps.iter().enumerate().map(|(i, step)| {
                match layout
                    .and_then(Layout::max)
                    .filter(|_| i + 1 == steps.len())
                {
                    Some(max) => quote!(.bounded_subfield(#step, #max)),
                    None => quote!(.subfield(#step)),
                }
            });
            quote!(path #(#steps)*)
        };
        if let VariantContent::Struct(_) = variant.content {
            let ident = self.variant_ident(variant);
            let (_, names) = with_params(&self.input.generics, &quote!(), &quote!(__M, __R, __S,));
            let path = path(&self.content_path(variant), None);
            return Some((
                vec![quote!(#ident #names)],
                quote!(#private::FromPath::from_path(#path.clone())),
                quote!(build),
            ));
        }
        let tree = |part: &VariantPart<'_>| {
            let fields = stored_item(part.ty, private, &quote!(Fields<__M, __R, __S>));
            if part.steps.is_empty() {
                quote!(#private::FieldsBesideTag<#fields>)
            } else {
                fields
            }
        };
        let constructor = |part: &VariantPart<'_>| {
            let path = path(&part.steps, Some(part.layout));
            quote_spanned!(part.ty.span()=> #private::FromPath::from_path(#path.clone()))
        };
        let (fields, constructors): (Vec<_>, Vec<_>) = parts
            .iter()
            .map(|part| (tree(part), constructor(part)))
            .unzip();
        let bindings: Vec<_> = parts.iter().map(|part| &part.binding).collect();
        Some((
            fields,
            quote!((#(#constructors,)*)),
            quote!(|(#(#bindings,)*)| build(#(#bindings),*)),
        ))
    }

    /// Returns the field tree of a variant with named fields.
    fn variant_tree(
        &self,
        variant: &VariantInput<'_>,
        private: &PrivatePath,
    ) -> Option<GeneratedCode> {
        let VariantContent::Struct(fields) = &variant.content else {
            return None;
        };
        if fields.is_empty() {
            return None;
        }
        let input = self.input;
        let (vis, ident) = (&input.vis, self.variant_ident(variant));
        let scope = quote!(__M: 'static, __R: 'static, __S: 'static,);
        let (decl, names) = with_params(&input.generics, &scope, &quote!(__M, __R, __S,));
        let (_, _, where_clause) = input.generics.split_for_impl();
        let used_params = input
            .generics
            .params
            .iter()
            .filter_map(|param| match param {
                GenericParam::Type(param) => Some(&param.ident),
                _ => None,
            });
        let full_path = &private.full_path();
        let accessors = fields.iter().map(|field: &Field<'_>| {
            field.accessor_method(
                full_path,
                &quote!(self.path),
                [&quote!(__M), &quote!(__R), &quote!(__S)],
            )
        });
        let doc = format!(
            "The fields of a [`{}::{}`] in a document.",
            input.ident.unraw(),
            variant.ident.unraw()
        );
        let lints = allow_lints();
        let types = quote! {
            #[doc = #doc]
            #lints
            #vis struct #ident #decl #where_clause {
                path: #full_path::Path,
                of: ::core::marker::PhantomData<fn() -> (__M, __R, __S, #(#used_params,)*)>,
            }

            #[automatically_derived]
            #lints
            impl #decl #ident #names #where_clause {
                #(#accessors)*
            }
        };
        let rest = quote! {
            #[automatically_derived]
            impl #decl #private::FromPath for #ident #names #where_clause {
                fn from_path(path: #private::Path) -> Self {
                    Self { path, of: ::core::marker::PhantomData }
                }
            }
        };
        Some(GeneratedCode { types, rest })
    }

    fn stored_impl(&self, private: &PrivatePath) -> TokenStream {
        let input = self.input;
        let (name, ident) = (&input.ident, fields_ident(input));
        let (_, type_generics) = with_params(&input.generics, &quote!(), &quote!());
        let (_, names) = with_params(&input.generics, &quote!(), &quote!(__M, __R, __S,));
        let (impl_generics, _, where_clause) = input.generics.split_for_impl();
        let validations = self.variants.iter().map(|variant| {
            let parts = self.variant_parts(variant);
            let (pattern, checks) = (
                variant_pattern(variant, &parts),
                parts.iter().map(|part| part.validation_code(private)),
            );
            quote!(#pattern => { #(#checks)* })
        });
        let visits = self.variants.iter().map(|variant| {
            let parts = self.variant_parts(variant);
            let (pattern, tag) = (
                variant_pattern(variant, &parts),
                self.tag_expression(variant, private),
            );
            let visits = parts.iter().map(|part| part.look_for_variants(private));
            quote!(#pattern => { found.variant(#tag); #(#visits)* })
        });
        let skipped = &self.skipped;
        let own_rewrites = self.variants.iter().any(|variant| {
            variant.other || self.variant_parts(variant).iter().any(|part| part.rewrites)
        });
        let nested = self
            .nested_parts()
            .map(|part| stored_item(part.ty, private, &quote!(HAS_SERDE_DEFAULTS)));
        let native = self
            .variants
            .iter()
            .flat_map(|variant| self.variant_parts(variant));
        let rounds = native
            .filter(|part| part.native && part.name.is_some())
            .chain(self.nested_parts())
            .map(|part| stored_item(part.ty, private, &quote!(ROUNDS_VALUES)));
        let links = self
            .nested_parts()
            .map(|part| stored_item(part.ty, private, &quote!(LINKS)));
        let reported = input
            .generics
            .params
            .is_empty()
            .then(|| quote!(.without_unreachable()));
        let projection = whole_projection(input, private);
        let tags = self
            .tag_assertions(private)
            .map(|check| quote!(const { #check };));
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Stored for #name #type_generics #where_clause {
                type Kind = #private::kind::Enum;
                type Fields<__M: 'static, __R: 'static, __S: 'static> = #ident #names;
                type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
                type New = Self;
                const HAS_SERDE_DEFAULTS: bool = #own_rewrites #(|| #nested)*;
                const ROUNDS_VALUES: bool = false #(|| #rounds)*;
                const LINKS: #private::EmbeddedLinks =
                    #private::EmbeddedLinks::NONE #(.with_field(#links))* .as_unreachable() #reported;
                fn validate(&self, place: &#private::CheckedPlace<'_>) -> #private::Result<()> {
                    #(#tags)*
                    let _ = place;
                    match self {
                        #(#validations)*
                        #(Self::#skipped { .. } => {})*
                    }
                    #private::Ok(())
                }
                fn variants(&self, found: &mut #private::VariantMap) {
                    match self {
                        #(#visits)*
                        #(Self::#skipped { .. } => {})*
                    }
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Embedded for #name #type_generics #where_clause {}

            #projection
        }
    }

    /// Returns the checks of the types of all parts.
    fn type_checks(&self, private: &PrivatePath) -> TokenStream {
        let layouts = self
            .variants
            .iter()
            .flat_map(|variant| self.variant_parts(variant));
        let layouts = layouts.filter_map(|part| {
            let trait_name = match part.layout {
                // The content of an internally tagged variant must be a struct.
                Layout::Plain | Layout::Embed if part.steps.is_empty() => quote!(BesideTag),
                Layout::Plain if part.native => quote!(Native),
                Layout::Embed if part.native => quote!(EmbedsNatives),
                Layout::EmbedMany(_) if part.native && !part.steps.is_empty() => quote!(Natives),
                // The bound `T: Embedded` already excludes arrays and references.
                Layout::Plain if part.name.is_none() && self.is_parameter(part.ty) => return None,
                Layout::Plain if part.name.is_none() => quote!(PlainContent),
                Layout::Plain => quote!(Plain),
                Layout::Embed => quote!(Embeds),
                _ if part.steps.is_empty() => quote!(BesideTag),
                Layout::EmbedMany(_) => quote!(EmbedsMany),
                Layout::Overflow(_) | Layout::ReferenceOverflow(_) => return None,
                Layout::Reference => quote!(Refers),
                Layout::ReferenceMany(_) => quote!(RefersMany),
                Layout::Invalid => return None,
            };
            let ty = part.ty;
            let kind = stored_item(ty, private, &quote!(Kind));
            Some(
                quote_spanned! {ty.span()=> <#kind as #private::#trait_name<#ty>>::check_layout();},
            )
        });
        let layouts = layout_function(&self.input.generics, layouts);
        // Tags of a generic enum are checked where its values are checked.
        let is_plain = self.input.generics.params.is_empty();
        let tags = self.tag_assertions(private).filter(|_| is_plain);
        let links = self.nested_parts().filter(|_| is_plain).map(|part| {
            let links = stored_item(part.ty, private, &quote!(LINKS));
            let message = no_links_message(VARIANT);
            quote_spanned!(part.ty.span()=> const _: () = ::core::assert!(!#links.any, #message);)
        });
        quote!(#layouts #(const _: () = #tags;)* #(#links)*)
    }

    fn is_parameter(&self, ty: &Type) -> bool {
        let mut params = self.input.generics.type_params();
        matches!(ty, Type::Path(ty) if params.any(|param| ty.path.is_ident(&param.ident)))
    }

    /// Returns assertions that a struct beside the tag has no field with the name of the tag.
    fn tag_assertions(&self, private: &PrivatePath) -> impl Iterator<Item = TokenStream> {
        let tag = match &self.repr {
            EnumRepr::Internal(tag) => tag.as_str(),
            _ => "",
        };
        let parts = self
            .variants
            .iter()
            .flat_map(|variant| self.variant_parts(variant));
        parts.filter(|part| part.steps.is_empty()).map(move |part| {
            let names = stored_item(part.ty, private, &quote!(NAMES));
            let message = format!(
                "a field of this struct is stored as `{tag}`, which is the tag of the enum: rename one of them"
            );
            quote_spanned! {part.ty.span()=>
                ::core::assert!(#private::leaves_to_tag(#names, #tag), #message)
            }
        })
    }

    /// Returns the parts that may contain references.
    fn nested_parts(&self) -> impl Iterator<Item = VariantPart<'_>> {
        let parts = self
            .variants
            .iter()
            .flat_map(|variant| self.variant_parts(variant));
        parts.filter(|part| {
            // A recursive type adds no new references, and a recursive bound would make the compiler report a cycle.
            (part.name.is_none() || !part.layout.is_plain())
                && !mentions_ident(part.ty, &self.input.ident)
        })
    }

    /// Returns an expression with the tag of the variant.
    fn tag_expression(&self, variant: &VariantInput<'_>, private: &PrivatePath) -> TokenStream {
        let stored = &variant.stored;
        match (&self.repr, &variant.content) {
            (EnumRepr::External, VariantContent::Unit) => quote!(#private::Tag::Text(#stored)),
            (EnumRepr::External, _) => quote!(#private::Tag::Key(#stored)),
            (EnumRepr::Internal(tag) | EnumRepr::Adjacent(tag, _), _) if variant.other => {
                let known_variants = self.variants.iter().filter(|variant| !variant.other);
                let known_variants = known_variants.map(|variant| &variant.stored);
                quote!(#private::Tag::Other(#tag, &[#(#known_variants),*]))
            }
            (EnumRepr::Internal(tag) | EnumRepr::Adjacent(tag, _), _) => {
                quote!(#private::Tag::Field(#tag, #stored))
            }
        }
    }

    /// Returns the path from the field with the enum to the content of the variant.
    fn content_path(&self, variant: &VariantInput<'_>) -> Vec<String> {
        match &self.repr {
            EnumRepr::External => vec![variant.stored.clone()],
            EnumRepr::Internal(_) => Vec::new(),
            EnumRepr::Adjacent(_, content) => vec![content.clone()],
        }
    }

    fn variant_parts<'p>(&self, variant: &'p VariantInput<'a>) -> Vec<VariantPart<'p>> {
        let prefix = self.content_path(variant);
        let inner_path = |step: String| prefix.iter().cloned().chain([step]).collect();
        let item = |i: usize, item: &'p TupleItem<'a>, steps| VariantPart {
            ty: item.ty,
            layout: &item.layout,
            steps,
            binding: format_ident!("__part{i}"),
            name: None,
            rewrites: false,
            native: item.native,
        };
        match &variant.content {
            VariantContent::Unit => Vec::new(),
            VariantContent::Newtype(only) => vec![item(0, only, prefix)],
            VariantContent::Tuple(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(i, each)| item(i, each, inner_path(i.to_string())))
                    .collect()
            }
            VariantContent::Struct(fields) => fields
                .iter()
                .enumerate()
                .map(|(i, field)| VariantPart {
                    ty: field.ty,
                    layout: &field.layout,
                    steps: inner_path(field.stored.clone()),
                    binding: format_ident!("__part{i}"),
                    name: Some(field.ident),
                    rewrites: field.default.is_some(),
                    native: field.native,
                })
                .collect(),
        }
    }

    fn variant_ident(&self, variant: &VariantInput<'_>) -> Ident {
        format_ident!(
            "{}{}Fields",
            self.input.ident.unraw(),
            variant.ident.unraw(),
            span = variant.ident.span()
        )
    }
}

impl VariantPart<'_> {
    fn validation_code(&self, private: &PrivatePath) -> TokenStream {
        if self.name.is_some() && self.layout.is_plain() {
            return TokenStream::new();
        }
        let (binding, steps) = (&self.binding, &self.steps);
        let place = quote!(&place.clone()#(.subfield(#steps))*);
        let count = stored_item(self.ty, private, &quote!(count));
        let validate = stored_item(self.ty, private, &quote!(validate));
        let len = self
            .layout
            .max()
            .map(|max| quote!(#private::validate_len(#count(#binding), #place, #max)?;));
        quote! {
            #len
            #validate(#binding, #place)?;
        }
    }

    fn look_for_variants(&self, private: &PrivatePath) -> TokenStream {
        let binding = &self.binding;
        let variants = stored_item(self.ty, private, &quote!(variants));
        let visit = quote!(#variants(#binding, found););
        self.steps.iter().rev().fold(
            visit,
            |visit, step| quote!(found.field(#step, |found| { #visit });),
        )
    }
}

/// Returns the pattern of the variant that binds its parts.
fn variant_pattern(variant: &VariantInput<'_>, parts: &[VariantPart<'_>]) -> TokenStream {
    let ident = variant.ident;
    let bindings = parts.iter().map(|part| &part.binding);
    match &variant.content {
        VariantContent::Unit => quote!(Self::#ident),
        VariantContent::Newtype(_) | VariantContent::Tuple(_) => {
            quote!(Self::#ident(#(#bindings),*))
        }
        VariantContent::Struct(_) => {
            let names = parts.iter().map(|part| part.name);
            quote!(Self::#ident { #(#names: #bindings,)* .. })
        }
    }
}
