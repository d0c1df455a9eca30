//! Code generation for rollups: data about children, and checks of types.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    PrivatePath,
    fields::{layout_function, with_span},
    wrap_nonempty,
};
use crate::{
    attr::{Comparison, Extreme, RollupAttr, RollupCondition, RollupKind},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    fn rollup_fields(&self) -> impl Iterator<Item = (&Field<'a>, &RollupAttr)> {
        let fields = self.fields.iter();
        fields.filter_map(|field| Some((field, field.rollup.as_ref()?)))
    }

    /// Returns the child models, which the schema must contain.
    pub(crate) fn child_models(&self, private: &PrivatePath) -> Vec<Type> {
        let models = self.rollup_fields().map(|(_, rollup)| {
            let child = &rollup.of;
            Type::Verbatim(quote_spanned!(child.span()=> #private::Ref<#child>))
        });
        models.collect()
    }

    /// Reports rollups in places that do not support rollups yet.
    pub(crate) fn ensure_no_rollups(&self, ctxt: &mut Ctxt, place: &str) {
        for (field, _) in self.rollup_fields() {
            ctxt.error_at(
                field.ident,
                format!("{place} cannot have rollups yet: remove the attribute"),
            );
        }
    }

    /// Returns the members of the `Model` constant for the rollups.
    pub(crate) fn rollup_members(&self, private: &PrivatePath) -> Option<TokenStream> {
        let right = self.rollup_fields().filter(|(field, _)| field.is_valid);
        let all = right.map(|(field, rollup)| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let child = &rollup.of;
            let model = quote_spanned!(child.span()=> <#child as #private::Document>);
            let path = |path: &[Ident]| {
                let steps = path_steps(path);
                quote!(#private::path_of(#model::fields() #(#steps)*))
            };
            let reference = path(std::slice::from_ref(&rollup.reference));
            let conditions = rollup
                .when
                .iter()
                .map(|condition| rollup_condition(private, &model, condition));
            let kind = match &rollup.kind {
                RollupKind::Count => quote!(Count),
                RollupKind::Sum(value) => {
                    let value = path(value);
                    quote!(Sum(|| #value))
                }
                RollupKind::Average(value) => {
                    let value = path(value);
                    quote!(Average(|| #value))
                }
                RollupKind::Extreme(extreme, value) => {
                    let value = path(value);
                    match extreme {
                        Extreme::Min => quote!(Min(|| #value)),
                        Extreme::Max => quote!(Max(|| #value)),
                    }
                }
                RollupKind::Latest { max, by } => {
                    let (by, ty) = (path(by), field.ty);
                    let fields =
                        quote_spanned!(ty.span()=> <#ty as #private::ExcerptArray<#child>>::FIELDS);
                    quote!(Latest { max: #max, by: || #by, fields: #fields })
                }
            };
            quote!(#private::Rollup {
                field: #name,
                stored: #stored,
                collection: #model::COLLECTION,
                model: || &#model::MODEL,
                reference: || #reference,
                when: || ::std::vec![#(#conditions),*],
                kind: #private::RollupKind::#kind,
            })
        });
        wrap_nonempty(&quote!(#(#all),*), |all| quote!(rollups: &[#all],))
    }

    /// Returns the computed fields of rollups with a separate state.
    pub(super) fn computed_rollups(&self, private: &PrivatePath) -> Vec<TokenStream> {
        let computed = self
            .rollup_fields()
            .filter(|(_, rollup)| rollup.kind.is_computed());
        let all = computed.map(|(field, rollup)| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let constructor = match rollup.kind {
                RollupKind::Average(_) => quote!(average),
                _ => quote!(extreme),
            };
            quote! {
                #private::ComputedField {
                    field: #name,
                    stored: #stored,
                    computation: || #private::Computation::#constructor(#stored),
                }
            }
        });
        all.collect()
    }

    /// Returns the checks of the types that rollups use.
    pub(crate) fn rollup_checks(&self, private: &PrivatePath) -> Option<TokenStream> {
        self.rollup_fields().next()?;
        let name = &self.input.ident;
        let (_, type_generics, _) = self.input.generics.split_for_impl();
        let checks = self.rollup_fields().map(|(field, rollup)| {
            let (ty, child, reference) = (field.ty, &rollup.of, &rollup.reference);
            let seen = quote_spanned!(child.span()=> #private::ensure_sees_parent::<#child, #name #type_generics>(););
            let counted = quote_spanned!(reference.span()=> #private::ensure_counted_by::<#name #type_generics, #child, _>(|model| model.#reference()););
            let type_check = match &rollup.kind {
                RollupKind::Count => quote_spanned!(ty.span()=> #private::ensure_counter::<#ty>();),
                RollupKind::Sum(value) | RollupKind::Average(value) => {
                    let (steps, last) = (path_steps(value), value.last().map_or_else(|| ty.span(), Ident::span));
                    let summed = quote_spanned!(last=> #private::ensure_summable::<#child, _>(|model| model #(#steps)*););
                    let check = match rollup.kind.is_computed() {
                        true => quote!(ensure_average),
                        false => quote!(ensure_counter),
                    };
                    let counter = quote_spanned!(ty.span()=> #private::#check::<#ty>(););
                    quote!(#counter #summed)
                }
                RollupKind::Extreme(_, value) => {
                    let (steps, last) = (path_steps(value), value.last().map_or_else(|| ty.span(), Ident::span));
                    quote_spanned!(last=> #private::ensure_extreme::<#ty, #child, _>(|model| model #(#steps)*);)
                }
                RollupKind::Latest { by, .. } => {
                    let (steps, last) = (path_steps(by), by.last().map_or_else(|| ty.span(), Ident::span));
                    let ordered = quote_spanned!(last=> #private::ensure_ranked::<#child, _>(|model| model #(#steps)*););
                    ordered
                }
            };
            let conditions = rollup.when.iter().map(|condition| {
                let span = condition.value.span();
                let model = quote_spanned!(span=> <#child as #private::Document>);
                let checked = rollup_condition(private, &model, condition);
                quote_spanned!(span=> let _ = #checked;)
            });
            quote!(#seen #counted #type_check #(#conditions)*)
        });
        Some(layout_function(&self.input.generics, checks))
    }

    /// Returns the `ExcerptOf` implementation: an embedded struct has fields of a model, with equal types and stored names.
    pub(crate) fn excerpt_impl(&self, child: &Type, private: &PrivatePath) -> TokenStream {
        let name = &self.input.ident;
        let (impl_generics, type_generics, where_clause) = self.input.generics.split_for_impl();
        let checks = self.fields.iter().map(|field| {
            let (ident, ty, stored) = (field.ident, field.ty, &field.stored);
            let rust = ident.unraw().to_string();
            let message = format!(
                "the field has another stored name in the model than `{stored}`: write the same `rename` and `rename_all` in \
                 both"
            );
            let place = quote!(#private::excerpt_source(#private::tree_of::<#child>().#ident()));
            let place = with_span(place, ident.span());
            let type_checks = quote_spanned!(ty.span()=> #place.ensure_fits::<#ty>(););
            let same = quote_spanned!(ident.span()=> const _: () = ::core::assert!(#private::stores_as::<#child>(#rust, #stored), #message););
            (type_checks, same)
        });
        let (type_checks, same): (Vec<_>, Vec<_>) = checks.unzip();
        let function = layout_function(&self.input.generics, type_checks.into_iter());
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::ExcerptOf<#child> for #name #type_generics #where_clause {}
            #function
            #(#same)*
        }
    }
}

/// Returns the call that creates a condition on the children of a model.
fn rollup_condition(
    private: &PrivatePath,
    model: &TokenStream,
    condition: &RollupCondition,
) -> TokenStream {
    let (steps, value) = (path_steps(&condition.path), &condition.value);
    let (function, comparison) = match condition.comparison {
        Comparison::Eq => ("rollup_condition", "Eq"),
        Comparison::Ne => ("rollup_condition", "Ne"),
        Comparison::Lt => ("rollup_comparison", "Lt"),
        Comparison::Lte => ("rollup_comparison", "Lte"),
        Comparison::Gt => ("rollup_comparison", "Gt"),
        Comparison::Gte => ("rollup_comparison", "Gte"),
    };
    let [function, comparison] = [function, comparison].map(|name| Ident::new(name, value.span()));
    quote_spanned! {value.span()=>
        #private::#function(#model::fields() #(#steps)*, #private::RollupComparison::#comparison, #value)
    }
}

/// Returns the accessor calls of a path.
pub(super) fn path_steps(path: &[Ident]) -> Vec<TokenStream> {
    let steps = path.iter();
    steps
        .map(|step| quote_spanned!(step.span()=> .#step()))
        .collect()
}
