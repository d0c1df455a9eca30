//! Code generation for computed fields: formulas in order of dependency, and checks of types.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    PrivatePath,
    fields::{layout_function, with_span},
    wrap_nonempty,
};
use crate::{
    attr::{ArithmeticOp, ComputedAttr, Formula, Layout},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// Returns the computed fields.
    fn computed_fields(&self) -> impl Iterator<Item = (&Field<'a>, &ComputedAttr)> {
        self.fields
            .iter()
            .filter_map(|field| Some((field, field.computed.as_ref()?)))
    }

    /// Reports computed fields in places that do not support computed fields yet.
    pub(crate) fn ensure_no_computed(&self, ctxt: &mut Ctxt, place: &str) {
        for (_, computed) in self.computed_fields() {
            let message = format!("{place} cannot have computed fields yet: remove the attribute");
            ctxt.error_at(&computed.path, message);
        }
    }

    /// Checks the formulas and the fields that formulas use.
    pub(crate) fn check_computed(&self, ctxt: &mut Ctxt) {
        for (field, computed) in self.computed_fields() {
            if field.derived.is_some() || field.rollup.is_some() || field.link.is_some() {
                ctxt.error_at(
                    &computed.path,
                    "a computed field cannot also be a copy, a snapshot, a rollup, a reference or an inverse: remove one of \
                     the attributes",
                );
            }
            if !field.layout.is_plain() || field.native {
                ctxt.error_at(
                    field.ty,
                    "a computed field must be an `i64`, `f64`, `Decimal128` or `String`",
                );
            }
            if field.stored == "_id" {
                ctxt.error_at(
                    &computed.path,
                    "the `_id` of a document never changes, so it cannot be computed: remove the attribute, or compose the `_id` by `id = \"…\"`",
                );
            }
            if let Some(rule) = field.rules.first_attr() {
                ctxt.error_at(
                    rule,
                    "no update checks rules of a computed field: move the rules to the fields of the formula",
                );
            }
            let places = computed.formula.field_paths();
            if places.is_empty() {
                ctxt.error_at(
                    &computed.path,
                    "the formula uses no field, so its value never changes: remove the attribute",
                );
            }
            for place in places {
                self.check_path(ctxt, field, place);
            }
            self.check_arrays(ctxt, &computed.formula, false);
        }
        if ctxt.is_clean() {
            self.ensure_acyclic(ctxt);
        }
    }

    fn check_path(&self, ctxt: &mut Ctxt, field: &Field<'_>, place: &[Ident]) {
        let Some(first) = place.first() else { return };
        if first == field.ident {
            ctxt.error_at(first, format!("`{first}` cannot be computed from itself"));
            return;
        }
        match self.field_named(first) {
            None => {
                let nearest = self.fields.iter().map(|other| other.ident.unraw().to_string());
                let message = match nearest_name(&first.unraw().to_string(), nearest) {
                    Some(nearest) => format!("there is no field `{first}` in this struct: did you mean `{nearest}`?"),
                    None => format!(
                        "there is no field `{first}` in this struct: a formula uses fields of the same document"
                    ),
                };
                ctxt.error_at(first, message);
            }
            Some(other) if other.layout.overflow().is_some() => ctxt.error_at(
                first,
                format!(
                    "a formula cannot use the elements of `{first}`, because some may be spilled to chunk documents: read their \
                     number by `len()`"
                ),
            ),
            Some(_) => {}
        }
    }

    /// Reports arrays outside of `sum`, and sums over several arrays.
    fn check_arrays(&self, ctxt: &mut Ctxt, formula: &Formula, is_added: bool) {
        match formula {
            Formula::Value(place) if !is_added => {
                if let Some(array) = self.array_field(place) {
                    ctxt.error_at(
                        array,
                        format!(
                            "`{array}` is an array: sum its elements, `sum({array}.…)`, or count them, `len({array})`"
                        ),
                    );
                }
            }
            Formula::Sum(all) => {
                for each in all {
                    let arrays = self.array_fields(each);
                    let mut arrays = arrays.iter();
                    let first = arrays.next();
                    if let Some(other) = arrays.find(|other| Some(*other) != first) {
                        ctxt.error_at(
                            other,
                            "a sum can use the elements of only one array: sum each array by itself, `sum(…) + sum(…)`",
                        );
                    }
                    if let (true, Some(array)) = (is_added, first) {
                        ctxt.error_at(
                            array,
                            "a sum over an array cannot contain another sum over an array",
                        );
                    } else {
                        self.check_arrays(ctxt, each, first.is_some());
                    }
                }
            }
            _ => {
                let operands = formula.operands().iter();
                operands.for_each(|operand| self.check_arrays(ctxt, operand, is_added));
            }
        }
    }

    /// Reports fields that depend on each other in a cycle.
    fn ensure_acyclic(&self, ctxt: &mut Ctxt) {
        let all: Vec<_> = self.computed_fields().collect();
        let ordered = self.in_dependency_order();
        let cyclic = all.iter().filter(|(field, _)| {
            let mut ordered = ordered.iter();
            !ordered.any(|(other, _)| other.ident == field.ident)
        });
        let cyclic: Vec<_> = cyclic.collect();
        for (_, computed) in &cyclic {
            let places = computed.formula.field_paths();
            let is_cyclic = |place: &&&[Ident]| {
                let mut cyclic = cyclic.iter();
                cyclic.any(|(field, _)| place.first().is_some_and(|first| first == field.ident))
            };
            if let Some(first) = places
                .iter()
                .find(is_cyclic)
                .and_then(|place| place.first())
            {
                ctxt.error_at(
                    first,
                    format!("`{first}` depends on this field, directly or through other fields: remove the cycle"),
                );
            }
        }
    }

    /// Returns the computed fields, each after the fields of its formula. Fields in a cycle are missing.
    fn in_dependency_order(&self) -> Vec<(&Field<'a>, &ComputedAttr)> {
        let mut remaining: Vec<_> = self.computed_fields().collect();
        let mut ordered = Vec::new();
        loop {
            let is_ready = |(_, computed): &(&Field<'_>, &ComputedAttr)| {
                let places = computed.formula.field_paths();
                let mut firsts = places.iter().filter_map(|place| place.first());
                firsts.all(|first| remaining.iter().all(|(field, _)| first != field.ident))
            };
            let Some(position) = remaining.iter().position(is_ready) else {
                return ordered;
            };
            ordered.push(remaining.remove(position));
        }
    }

    /// Returns the array field that a path starts with, if any.
    fn array_field<'p>(&self, place: &'p [Ident]) -> Option<&'p Ident> {
        let first = place.first()?;
        let field = self.field_named(first)?;
        let is_array = matches!(
            field.layout,
            Layout::EmbedMany(_) | Layout::ReferenceMany(_)
        );
        is_array.then_some(first)
    }

    /// Returns the array fields in a formula.
    fn array_fields<'f>(&self, formula: &'f Formula) -> Vec<&'f Ident> {
        match formula {
            Formula::Value(place) => self.array_field(place).into_iter().collect(),
            _ => formula
                .operands()
                .iter()
                .flat_map(|operand| self.array_fields(operand))
                .collect(),
        }
    }

    /// Returns an expression with the computed fields.
    pub(crate) fn computed_expression(&self, private: &PrivatePath) -> Option<TokenStream> {
        let self_type = quote!(Self);
        let formulas = self.in_dependency_order().into_iter().map(|(field, computed)| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let mut term = self.term_expression(&computed.formula, &self_type, private);
            if let Some(default) = &computed.default {
                let default = self.term_expression(default, &self_type, private);
                term = quote!(#term.or_if_zero_divisor(#default));
            }
            let ty = field.ty;
            let constructor = quote_spanned!(ty.span()=> #private::Computation::from_term::<#ty>);
            quote! {
                #private::ComputedField { field: #name, stored: #stored, computation: || #constructor(#term) }
            }
        });
        // A formula can use rollups.
        let all = self.computed_rollups(private).into_iter().chain(formulas);
        wrap_nonempty(&quote!(#(#all),*), |all| quote!(&[#all]))
    }

    fn term_expression(
        &self,
        formula: &Formula,
        self_type: &TokenStream,
        private: &PrivatePath,
    ) -> TokenStream {
        let term = |formula| self.term_expression(formula, self_type, private);
        match formula {
            Formula::Value(place) => {
                let call = match self.array_field(place) {
                    Some(_) => quote!(element_value),
                    None => quote!(value),
                };
                let place = self.value_accessor(place, self_type, private);
                quote!(#private::Term::#call(#place))
            }
            Formula::Len(place) => {
                let place = path_accessor(place, self_type, private);
                quote!(#private::Term::len(#place))
            }
            Formula::Whole(number) => quote!(#private::Term::Whole(#number)),
            Formula::Float(number) => quote!(#private::Term::Float(#number)),
            Formula::Text(text) => quote!(#private::Term::text(#text)),
            Formula::Lower(operand) => {
                let operand = term(operand);
                quote!(#operand.lower())
            }
            Formula::Trim(operand) => {
                let operand = term(operand);
                quote!(#operand.trim())
            }
            Formula::Concat(all) => {
                let all = all.iter().map(term);
                quote!(#private::Term::Concat(::std::vec![#(#all),*]))
            }
            Formula::Negative(operand) => {
                let operand = term(operand);
                quote!(#private::Term::Whole(0).minus(#operand))
            }
            Formula::Binary(operator, both) => {
                let [a, b] = &**both;
                let (a, b) = (term(a), term(b));
                let call = match operator {
                    ArithmeticOp::Add => quote!(plus),
                    ArithmeticOp::Subtract => quote!(minus),
                    ArithmeticOp::Multiply => quote!(times),
                    ArithmeticOp::Divide => quote!(divided_by),
                };
                quote!(#a.#call(#b))
            }
            Formula::Sum(all) => {
                let each = all.iter().map(|each| {
                    let element_term = term(each);
                    match self.array_fields(each).first() {
                        None => element_term,
                        Some(array) => {
                            let array =
                                path_accessor(std::slice::from_ref(*array), self_type, private);
                            quote!(#element_term.sum_over(#array))
                        }
                    }
                });
                let sum = each.reduce(|sum, each| quote!(#sum.plus(#each)));
                sum.unwrap_or_default()
            }
        }
    }

    /// Returns the accessor of a number, in the document or in an element of an array.
    fn value_accessor(
        &self,
        place: &[Ident],
        self_type: &TokenStream,
        private: &PrivatePath,
    ) -> TokenStream {
        match (self.array_field(place), place) {
            (Some(array), [_, element_path @ ..]) => {
                let document = path_accessor(std::slice::from_ref(array), self_type, private);
                let last = place.last().map_or_else(|| array.span(), Ident::span);
                let element =
                    with_span(quote!(#private::element_fields_at(#document)), array.span());
                let element_path = element_path
                    .iter()
                    .map(|step| quote_spanned!(step.span()=> .#step()));
                quote_spanned!(last=> #element #(#element_path)*)
            }
            _ => path_accessor(place, self_type, private),
        }
    }

    /// Returns checks that each field of a formula has a type that fits the computed field.
    pub(crate) fn computed_checks(&self, private: &PrivatePath) -> Option<TokenStream> {
        let name = &self.input.ident;
        let (_, type_generics, _) = self.input.generics.split_for_impl();
        let self_type = quote!(#name #type_generics);
        let mut checks = Vec::new();
        for (field, computed) in self.computed_fields() {
            let ty = field.ty;
            // If the type is invalid, an error about the formula would repeat the mistake.
            if !is_surely_wrong(ty) {
                let formulas = std::iter::once(&computed.formula).chain(&computed.default);
                for formula in formulas {
                    self.check_formula(formula, ty, &self_type, private, &mut checks);
                }
                let mut names = BTreeSet::new();
                collect_type_checks(&computed.formula, &mut names);
                for name in names {
                    let check = Ident::new(name, ty.span());
                    checks.push(quote_spanned!(ty.span()=> #private::#check::<#ty>();));
                }
            }
        }
        (!checks.is_empty()).then(|| layout_function(&self.input.generics, checks.into_iter()))
    }

    fn check_formula(
        &self,
        formula: &Formula,
        ty: &Type,
        self_type: &TokenStream,
        private: &PrivatePath,
        checks: &mut Vec<TokenStream>,
    ) {
        match formula {
            Formula::Value(operand) => {
                let Some(last) = operand.last() else { return };
                let place = self.value_accessor(operand, self_type, private);
                let counts = with_span(quote!(#private::ensure_counts::<#ty, _>), last.span());
                checks.push(quote_spanned!(last.span()=> #counts(#place);));
            }
            Formula::Len(operand) => {
                let Some(last) = operand.last() else { return };
                let place = path_accessor(operand, self_type, private);
                let ensure_length = with_span(quote!(#private::ensure_length), last.span());
                checks.push(quote_spanned!(last.span()=> #ensure_length(#place);));
            }
            Formula::Whole(_) | Formula::Text(_) => {}
            Formula::Float(number) => {
                let literal = quote!(#private::ensure_literal_counts::<#ty, f64>(#number););
                checks.push(with_span(literal, number.span()));
            }
            _ => {
                for operand in formula.operands() {
                    self.check_formula(operand, ty, self_type, private, checks);
                }
            }
        }
    }
}

/// Collects the checks that the type of a computed field has the operations of a formula.
fn collect_type_checks(formula: &Formula, checks: &mut BTreeSet<&'static str>) {
    match formula {
        Formula::Value(_) => {}
        Formula::Text(_) | Formula::Lower(_) | Formula::Trim(_) | Formula::Concat(_) => {
            checks.insert("ensure_text");
        }
        Formula::Binary(ArithmeticOp::Divide, _) => {
            checks.insert("ensure_divides");
        }
        Formula::Whole(_)
        | Formula::Float(_)
        | Formula::Len(_)
        | Formula::Negative(_)
        | Formula::Binary(..)
        | Formula::Sum(_) => {
            checks.insert("ensure_number");
        }
    }
    for operand in formula.operands() {
        collect_type_checks(operand, checks);
    }
}

/// Returns the accessor of a path in the document.
fn path_accessor(place: &[Ident], self_type: &TokenStream, private: &PrivatePath) -> TokenStream {
    let steps = place
        .iter()
        .map(|step| quote_spanned!(step.span()=> .#step()));
    let span = place.last().map_or_else(|| self_type.span(), Ident::span);
    let fields = with_span(quote!(<#self_type as #private::Document>::fields()), span);
    quote_spanned!(span=> #fields #(#steps)*)
}

/// Returns whether the type cannot be a computed field. Errors about the formula would then repeat the mistake.
fn is_surely_wrong(ty: &Type) -> bool {
    const WRONG: &[&str] = &[
        "i8", "i16", "i32", "u8", "u16", "u32", "u64", "usize", "isize", "f32", "bool",
    ];
    let text = ty.to_token_stream().to_string();
    WRONG.contains(&text.as_str()) || text.starts_with("Option") || text.starts_with("Vec")
}

/// Returns the most similar name, if any name is similar.
fn nearest_name(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let nearest = names.map(|other| (edit_distance(name, &other), other));
    let nearest = nearest.filter(|(distance, _)| *distance <= name.len().div_ceil(3));
    nearest.min().map(|(_, name)| name)
}

/// Returns the edit distance of two names in letters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<_> = b.chars().collect();
    let mut row: Vec<_> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut before = i;
        let mut next = vec![i + 1];
        for ((other, above), column) in b.iter().zip(row.iter().skip(1)).zip(0..) {
            let same = before + usize::from(letter != *other);
            before = *above;
            let insertion = next.get(column).copied().unwrap_or_default() + 1;
            next.push(same.min(above + 1).min(insertion));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
