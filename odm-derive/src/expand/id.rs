//! What follows from `id = "…"`: the `_id` is computed from fields and parsed back into them.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{Code, Private, fields::at, insertable::clone_and_debug, quiet};
use crate::{
    attr::{IdTemplate, Layout, Part, Segment, What},
    ctxt::Ctxt,
    model::{Field, Model, is_option},
};

impl Model<'_> {
    /// Marks what the framework fills: the `_id`, and the number in it.
    pub(crate) fn fill_id(&mut self, ctxt: &mut Ctxt, template: Option<&IdTemplate>) {
        for field in &mut self.fields {
            let mut parts = template.into_iter().flat_map(IdTemplate::parts);
            let is_number = parts.any(|part| part.is_number && part.is(field));
            let what = match (field.stored == "_id", is_number) {
                (true, _) => What::Id,
                (false, true) => What::Number,
                (false, false) => continue,
            };
            if field.filled.replace(what).is_some() {
                let name = field.ident;
                ctxt.error(name, format!("the framework fills `{name}` already"));
            }
        }
    }
}

impl IdTemplate {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Text(_) => None,
            Segment::Part(part) => Some(part),
        })
    }
}

impl Part {
    fn is(&self, field: &Field<'_>) -> bool {
        field.ident.unraw() == self.name
    }
}

/// The `_id` of a model that is made of fields.
pub(crate) struct SemanticId<'m, 'a> {
    model: &'m Model<'a>,
    template: &'m IdTemplate,
    id: &'m Field<'a>,
    /// The fields in their order.
    fields: Vec<(&'m Field<'a>, &'m Part)>,
    /// Whether nothing is wrong with it.
    is_right: bool,
}

impl<'m, 'a> SemanticId<'m, 'a> {
    /// Finds the fields, and reports what they cannot be.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        model: &'m Model<'a>,
        id: &'m Field<'a>,
        template: &'m IdTemplate,
    ) -> Self {
        let mut is_right = true;
        let mut fail = |at: &dyn ToTokens, message: String| {
            is_right = false;
            ctxt.error(at, message);
        };
        if let Some(param) = model.input.generics.params.first() {
            fail(
                param,
                "the `_id` of a model with parameters cannot be made of its fields yet: leave `id = …` out".into(),
            );
        }
        if !is_string(id.ty) {
            fail(
                id.ty,
                "an `_id` that is made of fields is a text: let it be a `String`".into(),
            );
        }
        let mut fields: Vec<(&Field<'_>, &Part)> = Vec::new();
        for part in template.parts() {
            let name = &part.name;
            let Some(field) = model.fields.iter().find(|field| part.is(field)) else {
                let others = model.fields.iter().filter(|field| field.stored != "_id");
                let others: Vec<_> = others
                    .map(|field| format!("`{}`", field.ident.unraw()))
                    .collect();
                let remedy = match part.is_number {
                    true => format!("add `{name}: i64`, in which the framework keeps the number"),
                    false => format!("the model has {}", others.join(", ")),
                };
                fail(
                    &template.said,
                    format!("there is no field `{name}`: {remedy}"),
                );
                continue;
            };
            if fields.iter().any(|(other, _)| other.ident == field.ident) {
                fail(
                    &template.said,
                    format!("the field `{name}` is part of the `_id` already"),
                );
            }
            if let Some(reason) = refuse(model, field) {
                fail(&template.said, reason);
            }
            fields.push((field, part));
        }
        Self {
            model,
            template,
            id,
            fields,
            is_right,
        }
    }

    /// Whether the field is part of it.
    pub(crate) fn has(&self, field: &Field<'_>) -> bool {
        self.fields.iter().any(|(own, _)| own.ident == field.ident)
    }

    /// What is said of it in the model.
    pub(crate) fn of_model(&self) -> TokenStream {
        let said = &self.template.said;
        let parts = self.fields.iter().map(|(field, _)| &field.stored);
        let number = self.number().map(|(field, _)| {
            let stored = &field.stored;
            quote!(number: ::core::option::Option::Some(#stored),)
        });
        quote!(id: ::core::option::Option::Some(#said), id_parts: &[#(#parts),*], #number)
    }

    fn number(&self) -> Option<&(&'m Field<'a>, &'m Part)> {
        self.fields.iter().find(|(_, part)| part.is_number)
    }

    /// What is in the implementation of the model.
    pub(crate) fn items(&self, private: &Private) -> Option<TokenStream> {
        if !self.is_right {
            return None;
        }
        let id = self.id.ident;
        let texts = self.template.segments.iter();
        let texts = texts
            .filter(|segment| matches!(segment, Segment::Text(_)))
            .count();
        let segments = self
            .fields
            .iter()
            .map(|(field, _)| of_part(field.ty, &quote!(SEGMENTS), private));
        let whole = self.written(private, |_| true, |ident| quote!(&self.#ident));
        let numbered = self.number().map(|(field, part)| {
            let (ident, ty) = (field.ident, field.ty);
            let before = self.written(
                private,
                |other| other != part.name,
                |ident| quote!(&self.#ident),
            );
            let stored = &field.stored;
            let number = quote_spanned!(ty.span()=> <#ty as #private::Number>::of(number));
            quote! {
                fn id_before_number(&self) -> #private::Result<::std::string::String> {
                    #private::Ok(#before.prefix())
                }
                fn set_number(&mut self, number: i64) -> #private::Result<()> {
                    self.#ident = #private::numbered(&Self::MODEL, #stored, number, #number)?;
                    #private::Ok(())
                }
            }
        });
        Some(quote! {
            const ID_SEGMENTS: usize = #texts #(+ #segments)*;
            fn check_id(id: &Self::Id) -> #private::Result<()> {
                let _parts = Self::parts_of(id)?;
                #private::Ok(())
            }
            fn fill_id(&mut self) -> #private::Result<()> {
                self.#id = #whole.finish();
                #private::Ok(())
            }
            #numbered
        })
    }

    /// The functions of the model, and the struct of its parts.
    pub(crate) fn functions(&self, private: &Private) -> Option<Code> {
        if !self.is_right {
            return None;
        }
        let (inside, private) = (private, &private.outside());
        let (name, vis) = (&self.model.input.ident, &self.model.input.vis);
        let said = self.template.said.value();
        let parts = format_ident!("{}IdParts", name.unraw());
        let idents: Vec<_> = self.fields.iter().map(|(field, _)| field.ident).collect();
        let types: Vec<_> = self
            .fields
            .iter()
            .map(|(field, _)| field.ty.to_token_stream())
            .collect();
        let arguments = self.fields.iter().map(|(field, _)| {
            let (ident, ty) = (field.ident, field.ty);
            quote_spanned!(ty.span()=> #ident: impl #private::IntoIdPart<#ty>)
        });
        let declared = self.fields.iter().map(|(field, _)| {
            let (ident, vis, ty, docs) = (field.ident, field.vis, field.ty, &field.docs);
            let doc = format!("The field `{}`.", field.stored);
            let docs = match docs.is_empty() {
                true => quote!(#[doc = #doc]),
                false => quote!(#(#docs)*),
            };
            quote!(#docs #vis #ident: #ty)
        });
        let written = self.written(private, |_| true, |ident| quote!(&#ident));
        let read = self.template.segments.iter().map(|segment| match segment {
            Segment::Text(text) => quote!(__reader.text(#text);),
            Segment::Part(part) => {
                let field = self.fields.iter().find(|(_, own)| own.name == part.name);
                let field = field.map(|(field, _)| (field.ident, field.ty));
                field.map_or_else(TokenStream::new, |(ident, ty)| {
                    let segments = of_part(ty, &quote!(SEGMENTS), private);
                    let read = of_part(ty, &quote!(read), private);
                    quote!(let #ident = __reader.part(#segments, #read)?;)
                })
            }
        });
        let again = self.written(private, |_| true, |ident| quote!(&__parts.#ident));
        let of_parts = format!(
            "What the `_id` of a [`{}`] is made of: `{said}`.",
            name.unraw()
        );
        let id_for = format!(
            "The `_id` `{said}`, made of its parts without a query: a reference to the document."
        );
        let parts_of = format!("The parts of an `_id` `{said}`, without a query.");
        let clone_and_debug = clone_and_debug(&parts, &self.model.input.generics, &idents, &types);
        let prefix = self.prefix(inside);
        let quiet = quiet();
        let beside = quote! {
            #[doc = #of_parts]
            #quiet
            #vis struct #parts {
                #(#declared,)*
            }

            #[automatically_derived]
            #quiet
            #[allow(private_bounds, private_interfaces, reason = "what is made of a field is no more visible than its type")]
            impl #name {
                #[doc = #id_for]
                ///
                /// # Errors
                ///
                /// Of kind `Invalid`, for a part of which no `_id` can be made: an empty text, a number of too many digits, a
                /// reference that is no `_id` of its model.
                #vis fn id_for(#(#arguments),*) -> #private::Result<#private::Ref<Self>> {
                    #(let #idents: #types = #private::IntoIdPart::into_id_part(#idents);)*
                    #private::Ok(#private::Ref::new(#written.finish()))
                }

                #[doc = #parts_of]
                ///
                /// # Errors
                ///
                /// Of kind `Invalid`, for an `_id` that is not made so.
                #vis fn parts_of(id: impl #private::IntoKey<Self>) -> #private::Result<#parts> {
                    let __id = #private::Ref::<Self>::new(id);
                    let mut __reader = #private::IdReader::new(&<Self as #private::Document>::MODEL, __id.id());
                    #(#read)*
                    let __parts = #parts { #(#idents,)* };
                    __reader.finish((|| #private::Ok(#again.finish()))())?;
                    #private::Ok(__parts)
                }
            }
        };
        let rest = quote! {
            #clone_and_debug

            #prefix
        };
        Some(Code {
            types: beside,
            rest,
        })
    }

    /// The proof that documents are under the first part of their ids.
    fn prefix(&self, private: &Private) -> Option<TokenStream> {
        let (first, part) = self.fields.first()?;
        let last = self.template.segments.last()?;
        if matches!(last, Segment::Part(last) if last.name == part.name) {
            return None;
        }
        let (name, ty) = (&self.model.input.ident, first.ty);
        let mut steps = TokenStream::new();
        for segment in &self.template.segments {
            match segment {
                Segment::Text(text) => steps.extend(quote!(.text(#text))),
                Segment::Part(part) => {
                    steps.extend(step(first, part, &quote!(first), private));
                    break;
                }
            }
        }
        Some(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #private::IdPrefix<#ty> for #name {
                fn prefix(first: &#ty) -> #private::Result<::std::string::String> {
                    let text = #private::IdText::new(&<Self as #private::Document>::MODEL);
                    #private::Ok(text #steps.prefix())
                }
            }
        })
    }

    /// The expression that makes an `_id` of values, up to the first part that `takes` does not take.
    fn written(
        &self,
        private: &Private,
        takes: impl Fn(&str) -> bool,
        value: impl Fn(&Ident) -> TokenStream,
    ) -> TokenStream {
        let mut steps = TokenStream::new();
        for segment in &self.template.segments {
            match segment {
                Segment::Text(text) => steps.extend(quote!(.text(#text))),
                Segment::Part(part) if !takes(&part.name) => break,
                Segment::Part(part) => {
                    let field = self.fields.iter().find(|(_, own)| own.name == part.name);
                    if let Some((field, _)) = field {
                        steps.extend(step(field, part, &value(field.ident), private));
                    }
                }
            }
        }
        quote!(#private::IdText::new(&<Self as #private::Document>::MODEL) #steps)
    }
}

/// What a part of an `_id` is made by, all at one place: that it is none is said once.
fn of_part(ty: &Type, item: &TokenStream, private: &Private) -> TokenStream {
    at(quote!(<#ty as #private::IdPart>::#item), ty.span())
}

/// One part more.
fn step(field: &Field<'_>, part: &Part, value: &TokenStream, private: &Private) -> TokenStream {
    let (stored, ty) = (&field.stored, field.ty);
    match part.width {
        None => {
            let write = of_part(ty, &quote!(write), private);
            quote!(.part(#stored, #value, #write)?)
        }
        Some(width) => quote_spanned!(ty.span()=> .padded::<#ty>(#stored, #width, #value)?),
    }
}

/// Why a field cannot be part of an `_id`, as far as its declaration tells.
fn refuse(model: &Model<'_>, field: &Field<'_>) -> Option<String> {
    let name = field.ident.unraw();
    if field.stored == "_id" {
        return Some(format!(
            "the `_id` cannot be made of itself: leave `{{{name}}}` out"
        ));
    }
    if !matches!(field.filled, None | Some(What::Scope | What::Number)) {
        return Some(format!(
            "the framework fills `{name}`, and an `_id` is made of what is known before: take another field"
        ));
    }
    if super::fields::mentions(field.ty, &model.input.ident) {
        return Some(format!(
            "`{name}` refers to `{}` itself, so that its `_id` would never come to an end: take another field",
            model.input.ident
        ));
    }
    if !matches!(
        field.layout,
        Layout::Plain | Layout::Reference | Layout::Wrong
    ) {
        return Some(format!(
            "an `_id` is made of single values, and `{name}` is an embedded struct, an array or a map: give the document a field of its \
             own for it"
        ));
    }
    if is_option(field.ty) {
        return Some(format!(
            "an `_id` is made of values that are always there, and `{name}` may be none: let the field be the value itself"
        ));
    }
    if field.default.is_some() || field.skip_if.is_some() {
        return Some(format!(
            "an `_id` is made of values that are always there: `{name}` cannot have serde's `default` or `skip_serializing_if`"
        ));
    }
    None
}

fn is_string(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "String"))
}
