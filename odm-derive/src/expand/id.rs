//! Code generation for an `_id` that is composed of fields: building the `_id` from the fields, and splitting the `_id` into its
//! parts.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints, fields::with_span, insertable::clone_and_debug,
};
use crate::{
    attr::{IdField, IdSegment, IdTemplate, Layout, ManagedKind},
    ctxt::Ctxt,
    model::{Field, Model, is_option},
};

impl Model<'_> {
    /// Marks the managed fields of the setting `id`: the `_id`, and the assigned number of a template.
    pub(crate) fn mark_id(
        &mut self,
        ctxt: &mut Ctxt,
        template: Option<&IdTemplate>,
        is_generated: bool,
    ) {
        for field in &mut self.fields {
            let mut parts = template.into_iter().flat_map(IdTemplate::id_fields);
            let is_number = parts.any(|part| part.is_number && part.names_field(field));
            let kind = match (field.stored == "_id", is_number) {
                (true, _) if is_generated => ManagedKind::AutoId,
                (true, _) => ManagedKind::Id,
                (false, true) => ManagedKind::Number,
                (false, false) => continue,
            };
            if field.managed.replace(kind).is_some() {
                let name = field.ident;
                ctxt.error_at(
                    name,
                    format!("`{name}` is a managed field already: remove one of the settings"),
                );
            }
        }
    }
}

impl IdTemplate {
    fn id_fields(&self) -> impl Iterator<Item = &IdField> {
        self.segments.iter().filter_map(|segment| match segment {
            IdSegment::Text(_) => None,
            IdSegment::Part(part) => Some(part),
        })
    }
}

impl IdField {
    fn names_field(&self, field: &Field<'_>) -> bool {
        field.ident.unraw() == self.name
    }
}

/// The composed `_id` of a model.
pub(crate) struct ComposedId<'m, 'a> {
    model: &'m Model<'a>,
    template: &'m IdTemplate,
    id: &'m Field<'a>,
    /// The fields in the order of the template.
    fields: Vec<(&'m Field<'a>, &'m IdField)>,
    /// Whether the template is valid.
    is_valid: bool,
}

impl<'m, 'a> ComposedId<'m, 'a> {
    /// Finds the fields of the template, and reports fields that cannot be part of an `_id`.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        model: &'m Model<'a>,
        id: &'m Field<'a>,
        template: &'m IdTemplate,
    ) -> Self {
        let mut is_valid = true;
        let mut fail = |at: &dyn ToTokens, message: String| {
            is_valid = false;
            ctxt.error_at(at, message);
        };
        if let Some(param) = model.input.generics.params.first() {
            fail(
                param,
                "the `_id` of a model with type parameters cannot be composed of fields yet: remove `id = …`".into(),
            );
        }
        if !is_string(id.ty) {
            fail(
                id.ty,
                "an `_id` that is composed of fields must be a `String`".into(),
            );
        }
        let mut fields: Vec<(&Field<'_>, &IdField)> = Vec::new();
        for part in template.id_fields() {
            let name = &part.name;
            let Some(field) = model.fields.iter().find(|field| part.names_field(field)) else {
                let field_names = model.fields.iter().filter(|field| field.stored != "_id");
                let field_names: Vec<_> = field_names
                    .map(|field| format!("`{}`", field.ident.unraw()))
                    .collect();
                let remedy = match part.is_number {
                    true => format!("add `{name}: i64`, which holds the number"),
                    false => format!("the model has {}", field_names.join(", ")),
                };
                fail(
                    &template.literal,
                    format!("there is no field `{name}`: {remedy}"),
                );
                continue;
            };
            if fields.iter().any(|(other, _)| other.ident == field.ident) {
                fail(
                    &template.literal,
                    format!("the field `{name}` is in the `_id` already: remove it"),
                );
            }
            if let Some(reason) = id_part_error(model, field) {
                fail(&template.literal, reason);
            }
            fields.push((field, part));
        }
        Self {
            model,
            template,
            id,
            fields,
            is_valid,
        }
    }

    /// Returns whether the field is part of the `_id`.
    pub(crate) fn has_part(&self, field: &Field<'_>) -> bool {
        self.fields
            .iter()
            .any(|(part, _)| part.ident == field.ident)
    }

    /// Returns the members of the `Model` constant for the composed `_id`.
    pub(crate) fn model_members(&self) -> TokenStream {
        let template = &self.template.literal;
        let parts = self.fields.iter().map(|(field, _)| &field.stored);
        let number = self.number_field().map(|(field, _)| {
            let stored = &field.stored;
            quote!(numbered_id_part: ::core::option::Option::Some(#stored),)
        });
        quote!(id: ::core::option::Option::Some(#template), id_parts: &[#(#parts),*], #number)
    }

    fn number_field(&self) -> Option<&(&'m Field<'a>, &'m IdField)> {
        self.fields.iter().find(|(_, part)| part.is_number)
    }

    /// Returns the items of the `Document` implementation.
    pub(crate) fn impl_items(&self, private: &PrivatePath) -> Option<TokenStream> {
        if !self.is_valid {
            return None;
        }
        let id = self.id.ident;
        let texts = self.template.segments.iter();
        let texts = texts
            .filter(|segment| matches!(segment, IdSegment::Text(_)))
            .count();
        let segments = self
            .fields
            .iter()
            .map(|(field, _)| part_item(field.ty, &quote!(SEGMENTS), private));
        let text = self.text_expression(private, |_| true, |ident| quote!(&self.#ident));
        let numbered = self.number_field().map(|(field, part)| {
            let (ident, ty) = (field.ident, field.ty);
            let before = self.text_expression(
                private,
                |other| other != part.name,
                |ident| quote!(&self.#ident),
            );
            let stored = &field.stored;
            // The tokens of the type can come from a macro, which does not see the variable.
            let place = Span::call_site().located_at(ty.span());
            let number = quote_spanned!(place=> <#ty as #private::AssignedNumber>::from_i64(number));
            quote! {
                fn id_before_number(&self) -> #private::Result<::std::string::String> {
                    #private::Ok(#before.prefix())
                }
                fn set_number(&mut self, number: i64) -> #private::Result<()> {
                    self.#ident = #private::assigned_number(&Self::MODEL, #stored, number, #number)?;
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
            fn compose_id(&mut self) -> #private::Result<()> {
                self.#id = #text.finish();
                #private::Ok(())
            }
            #numbered
        })
    }

    /// Returns `id_for` and `parts_of` of the model, and the struct of the parts.
    pub(crate) fn id_functions(&self, private: &PrivatePath) -> Option<GeneratedCode> {
        if !self.is_valid {
            return None;
        }
        let (short_private, private) = (private, &private.full_path());
        let (name, vis) = (&self.model.input.ident, &self.model.input.vis);
        let template = self.template.literal.value();
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
        let written = self.text_expression(private, |_| true, |ident| quote!(&#ident));
        let read = self.template.segments.iter().map(|segment| match segment {
            IdSegment::Text(text) => quote!(__reader.skip_constant_segment(#text);),
            IdSegment::Part(part) => {
                let field = self
                    .fields
                    .iter()
                    .find(|(_, id_field)| id_field.name == part.name);
                let field = field.map(|(field, _)| (field.ident, field.ty));
                field.map_or_else(TokenStream::new, |(ident, ty)| {
                    let segments = part_item(ty, &quote!(SEGMENTS), private);
                    let read = part_item(ty, &quote!(read), private);
                    quote!(let #ident = __reader.part(#segments, #read)?;)
                })
            }
        });
        let again = self.text_expression(private, |_| true, |ident| quote!(&__parts.#ident));
        let of_parts = format!(
            "The parts of the `_id` of a [`{}`]: `{template}`.",
            name.unraw()
        );
        let id_for = format!(
            "Returns the `_id` `{template}` with these parts, as a reference to the document. Needs no query."
        );
        let parts_of = format!("Returns the parts of an `_id` `{template}`. Needs no query.");
        let clone_and_debug = clone_and_debug(&parts, &self.model.input.generics, &idents, &types);
        let prefix = self.prefix_impl(short_private);
        let lints = allow_lints();
        let definitions = quote! {
            #[doc = #of_parts]
            #lints
            #vis struct #parts {
                #(#declared,)*
            }

            #[automatically_derived]
            #lints
            #[allow(private_bounds, private_interfaces, reason = "generated items are no more visible than the types of the fields")]
            impl #name {
                #[doc = #id_for]
                ///
                /// # Errors
                ///
                /// Returns `Invalid` for a part that cannot be in an `_id`: an empty text, a number with too many digits, a
                /// reference with an invalid `_id`.
                #vis fn id_for(#(#arguments),*) -> #private::Result<#private::Ref<Self>> {
                    #(let #idents: #types = #private::IntoIdPart::into_id_part(#idents);)*
                    #private::Ok(#private::Ref::new(#written.finish()))
                }

                #[doc = #parts_of]
                ///
                /// # Errors
                ///
                /// Returns `Invalid` for an `_id` that does not match the template.
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
        Some(GeneratedCode {
            types: definitions,
            rest,
        })
    }

    /// Returns the `IdPrefix` implementation, for models with ids that start with a parent's id.
    fn prefix_impl(&self, private: &PrivatePath) -> Option<TokenStream> {
        let (first, part) = self.fields.first()?;
        let last = self.template.segments.last()?;
        if matches!(last, IdSegment::Part(last) if last.name == part.name) {
            return None;
        }
        let (name, ty) = (&self.model.input.ident, first.ty);
        let mut steps = TokenStream::new();
        for segment in &self.template.segments {
            match segment {
                IdSegment::Text(text) => steps.extend(quote!(.constant_segment(#text))),
                IdSegment::Part(part) => {
                    steps.extend(part_step(first, part, &quote!(first), private));
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

    /// Returns an expression that builds an `_id` from values, up to the first part that `takes` rejects.
    fn text_expression(
        &self,
        private: &PrivatePath,
        takes: impl Fn(&str) -> bool,
        value: impl Fn(&Ident) -> TokenStream,
    ) -> TokenStream {
        let mut steps = TokenStream::new();
        for segment in &self.template.segments {
            match segment {
                IdSegment::Text(text) => steps.extend(quote!(.constant_segment(#text))),
                IdSegment::Part(part) if !takes(&part.name) => break,
                IdSegment::Part(part) => {
                    let field = self
                        .fields
                        .iter()
                        .find(|(_, id_field)| id_field.name == part.name);
                    if let Some((field, _)) = field {
                        steps.extend(part_step(field, part, &value(field.ident), private));
                    }
                }
            }
        }
        quote!(#private::IdText::new(&<Self as #private::Document>::MODEL) #steps)
    }
}

/// Returns an item of `IdPart` with all tokens at the span of the type. The compiler then reports a missing implementation only
/// once.
fn part_item(ty: &Type, item: &TokenStream, private: &PrivatePath) -> TokenStream {
    with_span(quote!(<#ty as #private::IdPart>::#item), ty.span())
}

/// Returns the method call that appends a part.
fn part_step(
    field: &Field<'_>,
    part: &IdField,
    value: &TokenStream,
    private: &PrivatePath,
) -> TokenStream {
    let (stored, ty) = (&field.stored, field.ty);
    match part.width {
        None => {
            let write = part_item(ty, &quote!(write), private);
            quote!(.part(#stored, #value, #write)?)
        }
        Some(width) => quote_spanned!(ty.span()=> .padded::<#ty>(#stored, #width, #value)?),
    }
}

/// Returns why a field cannot be part of an `_id`, judging by its declaration.
fn id_part_error(model: &Model<'_>, field: &Field<'_>) -> Option<String> {
    let name = field.ident.unraw();
    if field.stored == "_id" {
        return Some(format!(
            "the `_id` cannot be a part of itself: remove `{{{name}}}`"
        ));
    }
    if !matches!(
        field.managed,
        None | Some(ManagedKind::Scope | ManagedKind::Number)
    ) {
        return Some(format!(
            "`{name}` is a managed field, but the parts of an `_id` must be known before the insert: use another field"
        ));
    }
    if super::fields::mentions_ident(field.ty, &model.input.ident) {
        return Some(format!(
            "`{name}` refers to `{}` itself, so its `_id` would never end: use another field",
            model.input.ident
        ));
    }
    if !matches!(
        field.layout,
        Layout::Plain | Layout::Reference | Layout::Invalid
    ) {
        return Some(format!(
            "the parts of an `_id` must be single values, and `{name}` is an embedded struct, an array or a map: add a field to \
             the document"
        ));
    }
    if is_option(field.ty) {
        return Some(format!(
            "the parts of an `_id` must always be present, and `{name}` may be `None`: make the field the value itself"
        ));
    }
    if field.default.is_some() || field.skip_if.is_some() {
        return Some(format!(
            "the parts of an `_id` must always be present: remove serde's `default` or `skip_serializing_if` from `{name}`"
        ));
    }
    None
}

fn is_string(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "String"))
}
