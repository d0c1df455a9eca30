//! Code generation for sequence numbers: the description of the model, the index, and access to the fields.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, ext::IdentExt, spanned::Spanned};

use super::{PrivatePath, wrap_nonempty};
use crate::{
    attr::{IndexAttr, IndexKey, IndexOptions, Layout, ManagedKind, SequenceAttr},
    ctxt::Ctxt,
    model::{Field, Model, is_map, is_option},
};

impl<'a> Model<'a> {
    fn sequence_fields(&self) -> impl Iterator<Item = (&Field<'a>, &SequenceAttr)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.sequence.as_ref()?)))
    }

    /// Whether the field separates the sequences of a number. Such a field never changes.
    pub(crate) fn is_sequence_key(&self, field: &Field<'_>) -> bool {
        self.sequence_fields()
            .any(|(_, sequence)| sequence.per.as_ref() == Some(field.ident))
    }

    /// Reports sequence numbers in models that do not support sequence numbers yet.
    pub(crate) fn ensure_no_sequences(&self, ctxt: &mut Ctxt, place: &str) {
        for (_, sequence) in self.sequence_fields() {
            let message = format!("{place} cannot have sequence numbers yet: remove the attribute");
            ctxt.error_at(&sequence.path, message);
        }
    }

    /// Checks the numbered fields, and the fields that separate their sequences. Returns the unique indexes of the valid fields.
    pub(crate) fn check_sequences(&mut self, ctxt: &mut Ctxt) -> Vec<IndexAttr> {
        let scope = self.scope_field().map(|field| field.ident);
        let (mut indexes, mut invalid) = (Vec::new(), Vec::new());
        for (field, sequence) in self.sequence_fields() {
            let errors = ctxt.error_count();
            if field.stored == "_id" {
                ctxt.error_at(
                    &sequence.path,
                    "a number is part of an `_id` by the template of the `_id`: write `#[document(id = \"{#number}\")]`",
                );
            }
            if field.derived.is_some()
                || field.rollup.is_some()
                || field.computed.is_some()
                || field.link.is_some()
            {
                ctxt.error_at(
                    &sequence.path,
                    "a sequence number cannot also be a copy, a snapshot, a rollup, a computed field, a reference or an inverse: remove one of the attributes",
                );
            } else if !field.layout.is_plain() || field.native {
                ctxt.error_at(
                    field.ty,
                    "a sequence number must be an integer: use an `i64`",
                );
            }
            if let Some(predicate) = &field.skip_if {
                ctxt.error_at(
                    predicate,
                    "a sequence number is always stored: remove `skip_serializing_if`",
                );
            }
            if let Some(per) = &sequence.per {
                self.check_sequence_key(ctxt, field, per);
            }
            let has_errors = ctxt.error_count() > errors;
            if has_errors {
                invalid.push(field.ident);
            }
            // The compiler reports an option, which is no integer.
            if field.is_valid && !has_errors && !is_option(field.ty) {
                indexes.push(sequence.unique_index(field.ident, scope));
            }
        }
        for field in &mut self.fields {
            // The generated code then has no type errors about the same mistake.
            field.is_valid &= !invalid.contains(&field.ident);
        }
        indexes
    }

    fn check_sequence_key(&self, ctxt: &mut Ctxt, number: &Field<'_>, per: &Ident) {
        let Some(field) = self.field_named(per) else {
            let fields = self.fields.iter();
            let names = fields.filter(|field| field.stored != "_id" && field.ident != number.ident);
            let names: Vec<_> = names
                .map(|field| format!("`{}`", field.ident.unraw()))
                .collect();
            let remedy = match names.is_empty() {
                true => "remove `per` for one sequence of the model".to_owned(),
                false => format!("the model has {}", names.join(", ")),
            };
            ctxt.error_at(per, format!("there is no field `{per}`: {remedy}"));
            return;
        };
        let reason = if field.stored == "_id" {
            "each document has its own `_id`, so each number would be 1: name another field"
        } else if !matches!(field.managed, None | Some(ManagedKind::Scope)) {
            "the framework fills this field, but the sequence must be known before the insert: name a field that the application sets, or the scope"
        } else if !matches!(
            field.layout,
            Layout::Plain | Layout::Reference | Layout::Invalid
        ) || is_map(field.ty)
        {
            "the value of `per` must be a single value, not an embedded struct, an array or a map: name another field"
        } else if is_option(field.ty) || field.default.is_some() || field.skip_if.is_some() {
            "each document needs a value that selects its sequence: make the field the value itself, without an `Option` or serde's `default`"
        } else {
            return;
        };
        ctxt.error_at(per, reason);
    }

    /// Returns the members of the `Model` constant for the sequence numbers.
    pub(super) fn sequence_members(&self, private: &PrivatePath) -> Option<TokenStream> {
        let all = self.sequence_fields().map(|(field, sequence)| {
            let stored = &field.stored;
            let per = sequence.per.as_ref().and_then(|per| self.field_named(per));
            let per = match per {
                None => quote!(#private::None),
                Some(per) => {
                    let stored = &per.stored;
                    quote!(#private::Some(#stored))
                }
            };
            quote!(#private::SequenceField { stored: #stored, per: #per })
        });
        wrap_nonempty(&quote!(#(#all),*), |all| quote!(sequences: &[#all],))
    }

    /// Returns the items of the `Document` implementation that read the fields of `per` and store the numbers.
    pub(super) fn sequence_items(&self, private: &PrivatePath) -> Option<TokenStream> {
        self.sequence_fields().next()?;
        let keys = self.sequence_fields().enumerate();
        let keys = keys.filter_map(|(position, (_, sequence))| {
            let per = self.field_named(sequence.per.as_ref()?)?;
            let ident = per.ident;
            let value = match per.native {
                true => quote!(&#private::NativeValue(&self.#ident)),
                false => quote!(&self.#ident),
            };
            Some(quote!(#position => #private::encode_new(#value).map(#private::Some),))
        });
        let numbers = self.sequence_fields().enumerate();
        let numbers = numbers.filter(|(_, (field, _))| field.is_valid);
        let numbers = numbers.map(|(position, (field, _))| {
            let (ident, ty, stored) = (field.ident, field.ty, &field.stored);
            let number = quote_spanned!(ty.span()=> <#ty as #private::SequenceInteger>::from_i64(number));
            quote!(#position => self.#ident = #private::assigned_number(&Self::MODEL, #stored, number, #number)?,)
        });
        Some(quote! {
            fn sequence_key(&self, position: usize) -> #private::Result<#private::Option<#private::RawBson>> {
                match position {
                    #(#keys)*
                    _ => #private::Ok(#private::None),
                }
            }
            fn set_sequence_number(&mut self, position: usize, number: i64) -> #private::Result<()> {
                match position {
                    #(#numbers)*
                    _ => {}
                }
                #private::Ok(())
            }
        })
    }
}

impl SequenceAttr {
    /// Returns the index that keeps the numbers unique, also if documents come from outside of the framework. A sequence that is not
    /// per scope numbers the documents of all scopes.
    fn unique_index(&self, number: &Ident, scope: Option<&Ident>) -> IndexAttr {
        let options = IndexOptions {
            unique: true,
            all_scopes: scope
                .filter(|scope| self.per.as_ref() != Some(*scope))
                .cloned(),
            ..IndexOptions::default()
        };
        let names = self.per.iter().chain([number]);
        let keys = names.map(|name| IndexKey::of_field(name, &options));
        IndexAttr {
            keys: keys.collect(),
            options,
        }
    }
}
