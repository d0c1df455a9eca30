//! `#[derive(Embedded)]` of an enum: its variants, by closure.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{DataEnum, DeriveInput, GenericParam, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Code, Private,
    embedded::{place_tree, value, whole},
    fields::{closed, layout_function, mentions, of_stored},
    quiet, with_params,
};
use crate::{
    attr::{Layout, no_links},
    ctxt::Ctxt,
    model::{Field, VARIANT, fields_ident},
    variant::{Content, Enum, Item, Repr, Variant},
};

pub(super) fn expand(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    data: &DataEnum,
    private: &Private,
) -> Code {
    let Some(parsed) = Enum::parse(ctxt, input, data).filter(Enum::has_data) else {
        return value(ctxt, input, None, private).into();
    };
    let methods = parsed
        .variants
        .iter()
        .filter(|variant| !variant.is_hidden)
        .map(|variant| parsed.methods(variant, &private.outside()));
    let tree = place_tree(input, methods, private);
    let trees = parsed
        .variants
        .iter()
        .filter_map(|variant| parsed.variant_tree(variant, private));
    let implementation = parsed.implementation(private);
    let closed = closed(input, parsed.nested().map(|part| part.ty), false, private);
    let checks = ctxt.is_clean().then(|| parsed.checks(private));
    let mut code = tree;
    code.extend(trees);
    code.extend([quote!(#implementation #closed #checks).into()]);
    code
}

/// Something in a variant that has a type: a field, with or without a name.
struct Part<'p> {
    ty: &'p Type,
    layout: &'p Layout,
    /// The steps to it from the place that holds the enum.
    steps: Vec<String>,
    /// What it is bound to where a value is looked at.
    binding: Ident,
    name: Option<&'p Ident>,
    rewrites: bool,
    native: bool,
}

impl<'a> Enum<'a> {
    /// `is_card` and, if there is something in the variant, `card`.
    fn methods(&self, variant: &Variant<'_>, private: &Private) -> TokenStream {
        let (vis, is, method) = (&self.input.vis, &variant.is, &variant.method);
        let tag = self.tag(variant, private);
        // That it holds none of some texts can be said of one value only.
        let of_one = variant
            .other
            .then(|| quote!(#private::said::Condition: #private::SaidAt<__S>,));
        let name = variant.ident.unraw();
        let doc = format!("The value is `{name}`.");
        let ask = quote! {
            #[doc = #doc]
            #[must_use]
            #vis fn #is(&self) -> #private::Filter<__M>
            where
                __S: #private::Queryable,
                #of_one
            {
                #tag.filter(&#private::Place::path(&self.whole))
            }
        };
        let Some((fields, path, say)) = self.inside(variant, private) else {
            return ask;
        };
        let docs = if variant.docs.is_empty() {
            let text = format!("What is said of a `{name}`, which the value then is.");
            quote!(#[doc = #text])
        } else {
            let docs = &variant.docs;
            quote!(#(#docs)*)
        };
        quote! {
            #ask

            #docs
            #vis fn #method<__X: #private::OfVariant<__M, __S>>(
                &self,
                say: impl ::core::ops::FnOnce(#(#fields),*) -> __X,
            ) -> <__X as #private::OfVariant<__M, __S>>::Out
            where
                <__X as #private::OfVariant<__M, __S>>::Says: #private::SaidAt<__S>,
            {
                #tag.within(&#private::Place::path(&self.whole), |path| #path, #say)
            }
        }
    }

    /// What a closure about a variant gets, how it is made of the `path` of the enum, and the call of the closure `say`
    /// with it. None for a variant with nothing in it.
    fn inside(
        &self,
        variant: &Variant<'_>,
        private: &Private,
    ) -> Option<(Vec<TokenStream>, TokenStream, TokenStream)> {
        let parts = self.parts(variant);
        if parts.is_empty() {
            return None;
        }
        let path = |steps: &[String], layout: Option<&Layout>| {
            let steps = steps.iter().enumerate().map(|(i, step)| {
                match layout
                    .and_then(Layout::max)
                    .filter(|_| i + 1 == steps.len())
                {
                    Some(max) => quote!(.then_bounded(#step, #max)),
                    None => quote!(.then(#step)),
                }
            });
            quote!(path #(#steps)*)
        };
        if let Content::Struct(_) = variant.content {
            let ident = self.variant_ident(variant);
            let (_, names) = with_params(&self.input.generics, &quote!(), &quote!(__M, __R, __S,));
            let path = path(&self.prefix(variant), None);
            return Some((
                vec![quote!(#ident #names)],
                quote!(#private::FromPath::from_path(#path.clone())),
                quote!(say),
            ));
        }
        let tree = |part: &Part<'_>| {
            let fields = of_stored(part.ty, private, &quote!(Fields<__M, __R, __S>));
            if part.steps.is_empty() {
                quote!(#private::Beside<#fields>)
            } else {
                fields
            }
        };
        let make = |part: &Part<'_>| {
            let path = path(&part.steps, Some(part.layout));
            quote_spanned!(part.ty.span()=> #private::FromPath::from_path(#path.clone()))
        };
        let (fields, made): (Vec<_>, Vec<_>) =
            parts.iter().map(|part| (tree(part), make(part))).unzip();
        let bindings: Vec<_> = parts.iter().map(|part| &part.binding).collect();
        Some((
            fields,
            quote!((#(#made,)*)),
            quote!(|(#(#bindings,)*)| say(#(#bindings),*)),
        ))
    }

    /// The tree of a variant with named fields.
    fn variant_tree(&self, variant: &Variant<'_>, private: &Private) -> Option<Code> {
        let Content::Struct(fields) = &variant.content else {
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
        let used = input
            .generics
            .params
            .iter()
            .filter_map(|param| match param {
                GenericParam::Type(param) => Some(&param.ident),
                _ => None,
            });
        let outside = &private.outside();
        let accessors = fields.iter().map(|field: &Field<'_>| {
            field.accessor(
                outside,
                &quote!(self.path),
                [&quote!(__M), &quote!(__R), &quote!(__S)],
            )
        });
        let doc = format!(
            "The fields of a [`{}::{}`] in a document.",
            input.ident.unraw(),
            variant.ident.unraw()
        );
        let quiet = quiet();
        let types = quote! {
            #[doc = #doc]
            #quiet
            #vis struct #ident #decl #where_clause {
                path: #outside::Path,
                of: ::core::marker::PhantomData<fn() -> (__M, __R, __S, #(#used,)*)>,
            }

            #[automatically_derived]
            #quiet
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
        Some(Code { types, rest })
    }

    fn implementation(&self, private: &Private) -> TokenStream {
        let input = self.input;
        let (name, ident) = (&input.ident, fields_ident(input));
        let (_, own) = with_params(&input.generics, &quote!(), &quote!());
        let (_, names) = with_params(&input.generics, &quote!(), &quote!(__M, __R, __S,));
        let (impl_generics, _, where_clause) = input.generics.split_for_impl();
        let validations = self.variants.iter().map(|variant| {
            let parts = self.parts(variant);
            let (pattern, checks) = (
                pattern(variant, &parts),
                parts.iter().map(|part| part.validation(private)),
            );
            quote!(#pattern => { #(#checks)* })
        });
        let looks = self.variants.iter().map(|variant| {
            let parts = self.parts(variant);
            let (pattern, tag) = (pattern(variant, &parts), self.tag(variant, private));
            let looks = parts.iter().map(|part| part.look_for_variants(private));
            quote!(#pattern => { found.variant(#tag); #(#looks)* })
        });
        let skipped = &self.skipped;
        let own_rewrites = self
            .variants
            .iter()
            .any(|variant| variant.other || self.parts(variant).iter().any(|part| part.rewrites));
        let nested = self
            .nested()
            .map(|part| of_stored(part.ty, private, &quote!(REWRITES)));
        let native = self.variants.iter().flat_map(|variant| self.parts(variant));
        let rounds = native
            .filter(|part| part.native && part.name.is_some())
            .chain(self.nested())
            .map(|part| of_stored(part.ty, private, &quote!(ROUNDS)));
        let links = self
            .nested()
            .map(|part| of_stored(part.ty, private, &quote!(LINKS)));
        let reported = input
            .generics
            .params
            .is_empty()
            .then(|| quote!(.reported()));
        let whole = whole(input, private);
        let tags = self
            .tag_checks(private)
            .map(|check| quote!(const { #check };));
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Stored for #name #own #where_clause {
                type Kind = #private::kind::Enum;
                type Fields<__M: 'static, __R: 'static, __S: 'static> = #ident #names;
                type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
                type New = Self;
                const REWRITES: bool = #own_rewrites #(|| #nested)*;
                const ROUNDS: bool = false #(|| #rounds)*;
                const LINKS: #private::LinksInside =
                    #private::LinksInside::NONE #(.with_field(#links))* .out_of_reach() #reported;
                fn validate(&self, place: &#private::Checked<'_>) -> #private::Result<()> {
                    #(#tags)*
                    let _ = place;
                    match self {
                        #(#validations)*
                        #(Self::#skipped { .. } => {})*
                    }
                    #private::Ok(())
                }
                fn variants(&self, found: &mut #private::Variants) {
                    match self {
                        #(#looks)*
                        #(Self::#skipped { .. } => {})*
                    }
                }
            }

            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::Embedded for #name #own #where_clause {}

            #whole
        }
    }

    /// The generated checks that the compiler makes of the types.
    fn checks(&self, private: &Private) -> TokenStream {
        let layouts = self.variants.iter().flat_map(|variant| self.parts(variant));
        let layouts = layouts.filter_map(|part| {
            let fits = match part.layout {
                // The content of a variant can be nothing else.
                Layout::Plain | Layout::Embed if part.steps.is_empty() => quote!(BesideTag),
                Layout::Plain if part.native => quote!(Native),
                Layout::EmbedMany(_) if part.native && !part.steps.is_empty() => quote!(Natives),
                // The bound of the parameter says what it can be: `T: Embedded` is no array and no reference.
                Layout::Plain if part.name.is_none() && self.is_parameter(part.ty) => return None,
                Layout::Plain if part.name.is_none() => quote!(PlainContent),
                Layout::Plain => quote!(Plain),
                Layout::Embed => quote!(Embeds),
                _ if part.steps.is_empty() => quote!(BesideTag),
                Layout::EmbedMany(_) => quote!(EmbedsMany),
                Layout::Overflow(_) | Layout::ReferenceOverflow(_) => return None,
                Layout::Reference => quote!(Refers),
                Layout::ReferenceMany(_) => quote!(RefersMany),
                Layout::Wrong => return None,
            };
            let ty = part.ty;
            let kind = of_stored(ty, private, &quote!(Kind));
            Some(quote_spanned! {ty.span()=> <#kind as #private::#fits<#ty>>::check();})
        });
        let layouts = layout_function(&self.input.generics, layouts);
        // Of a type with parameters the tags are checked where its values are.
        let is_plain = self.input.generics.params.is_empty();
        let tags = self.tag_checks(private).filter(|_| is_plain);
        let links = self.nested().filter(|_| is_plain).map(|part| {
            let links = of_stored(part.ty, private, &quote!(LINKS));
            let message = no_links(VARIANT);
            quote_spanned!(part.ty.span()=> const _: () = ::core::assert!(!#links.any, #message);)
        });
        quote!(#layouts #(const _: () = #tags;)* #(#links)*)
    }

    fn is_parameter(&self, ty: &Type) -> bool {
        let mut params = self.input.generics.type_params();
        matches!(ty, Type::Path(ty) if params.any(|param| ty.path.is_ident(&param.ident)))
    }

    /// Checks that the fields of a struct which stand beside the tag leave its name to it.
    fn tag_checks(&self, private: &Private) -> impl Iterator<Item = TokenStream> {
        let tag = match &self.repr {
            Repr::Internal(tag) => tag.as_str(),
            _ => "",
        };
        let beside = self.variants.iter().flat_map(|variant| self.parts(variant));
        beside.filter(|part| part.steps.is_empty()).map(move |part| {
            let names = of_stored(part.ty, private, &quote!(NAMES));
            let message = format!(
                "a field of this struct is stored as `{tag}`, where the enum has its tag: rename one of them"
            );
            quote_spanned! {part.ty.span()=>
                ::core::assert!(#private::leaves_to_tag(#names, #tag), #message)
            }
        })
    }

    /// What may refer to other models, or hold something that does.
    fn nested(&self) -> impl Iterator<Item = Part<'_>> {
        let parts = self.variants.iter().flat_map(|variant| self.parts(variant));
        parts.filter(|part| {
            // A type inside itself asks for nothing new, and the compiler would go round in a circle.
            (part.name.is_none() || !part.layout.is_plain())
                && !mentions(part.ty, &self.input.ident)
        })
    }

    /// How a stored value tells that it is of the variant.
    fn tag(&self, variant: &Variant<'_>, private: &Private) -> TokenStream {
        let stored = &variant.stored;
        match (&self.repr, &variant.content) {
            (Repr::External, Content::Unit) => quote!(#private::Tag::Text(#stored)),
            (Repr::External, _) => quote!(#private::Tag::Key(#stored)),
            (Repr::Internal(tag) | Repr::Adjacent(tag, _), _) if variant.other => {
                let others = self.variants.iter().filter(|variant| !variant.other);
                let others = others.map(|variant| &variant.stored);
                quote!(#private::Tag::Other(#tag, &[#(#others),*]))
            }
            (Repr::Internal(tag) | Repr::Adjacent(tag, _), _) => {
                quote!(#private::Tag::Field(#tag, #stored))
            }
        }
    }

    /// The steps from the place of the enum to the content of the variant.
    fn prefix(&self, variant: &Variant<'_>) -> Vec<String> {
        match &self.repr {
            Repr::External => vec![variant.stored.clone()],
            Repr::Internal(_) => Vec::new(),
            Repr::Adjacent(_, content) => vec![content.clone()],
        }
    }

    fn parts<'p>(&self, variant: &'p Variant<'a>) -> Vec<Part<'p>> {
        let prefix = self.prefix(variant);
        let below = |step: String| prefix.iter().cloned().chain([step]).collect();
        let item = |i: usize, item: &'p Item<'a>, steps| Part {
            ty: item.ty,
            layout: &item.layout,
            steps,
            binding: format_ident!("__part{i}"),
            name: None,
            rewrites: false,
            native: item.native,
        };
        match &variant.content {
            Content::Unit => Vec::new(),
            Content::Newtype(only) => vec![item(0, only, prefix)],
            Content::Tuple(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(i, each)| item(i, each, below(i.to_string())))
                    .collect()
            }
            Content::Struct(fields) => fields
                .iter()
                .enumerate()
                .map(|(i, field)| Part {
                    ty: field.ty,
                    layout: &field.layout,
                    steps: below(field.stored.clone()),
                    binding: format_ident!("__part{i}"),
                    name: Some(field.ident),
                    rewrites: field.default.is_some(),
                    native: field.native,
                })
                .collect(),
        }
    }

    fn variant_ident(&self, variant: &Variant<'_>) -> Ident {
        format_ident!(
            "{}{}Fields",
            self.input.ident.unraw(),
            variant.ident.unraw(),
            span = variant.ident.span()
        )
    }
}

impl Part<'_> {
    fn validation(&self, private: &Private) -> TokenStream {
        if self.name.is_some() && self.layout.is_plain() {
            return TokenStream::new();
        }
        let (binding, steps) = (&self.binding, &self.steps);
        let place = quote!(&place.clone()#(.then(#steps))*);
        let count = of_stored(self.ty, private, &quote!(count));
        let validate = of_stored(self.ty, private, &quote!(validate));
        let len = self
            .layout
            .max()
            .map(|max| quote!(#private::validate_len(#count(#binding), #place, #max)?;));
        quote! {
            #len
            #validate(#binding, #place)?;
        }
    }

    fn look_for_variants(&self, private: &Private) -> TokenStream {
        let binding = &self.binding;
        let variants = of_stored(self.ty, private, &quote!(variants));
        let look = quote!(#variants(#binding, found););
        self.steps.iter().rev().fold(
            look,
            |look, step| quote!(found.field(#step, |found| { #look });),
        )
    }
}

/// The pattern of the variant that binds its parts.
fn pattern(variant: &Variant<'_>, parts: &[Part<'_>]) -> TokenStream {
    let ident = variant.ident;
    let bindings = parts.iter().map(|part| &part.binding);
    match &variant.content {
        Content::Unit => quote!(Self::#ident),
        Content::Newtype(_) | Content::Tuple(_) => quote!(Self::#ident(#(#bindings),*)),
        Content::Struct(_) => {
            let names = parts.iter().map(|part| part.name);
            quote!(Self::#ident { #(#names: #bindings,)* .. })
        }
    }
}
