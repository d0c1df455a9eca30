//! What is computed from other fields: as data, in an order in which it can be, and the proof that the types fit.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Private, around,
    fields::{at, layout_function},
};
use crate::{
    attr::{Computed, Formula, Layout, Operator},
    ctxt::Ctxt,
    model::{Field, Model},
};

impl<'a> Model<'a> {
    /// The fields that are computed.
    fn computed_fields(&self) -> impl Iterator<Item = (&Field<'a>, &Computed)> {
        self.fields
            .iter()
            .filter_map(|field| Some((field, field.computed.as_ref()?)))
    }

    /// Refuses computed fields where nothing computes them yet.
    pub(crate) fn refuse_computed(&self, ctxt: &mut Ctxt, place: &str) {
        for (_, computed) in self.computed_fields() {
            let message = format!("{place} has no computed fields yet: leave the attribute out");
            ctxt.error(&computed.path, message);
        }
    }

    /// Finds what the fields are computed from.
    pub(crate) fn check_computed(&self, ctxt: &mut Ctxt) {
        for (field, computed) in self.computed_fields() {
            if field.derived.is_some() || field.tally.is_some() || field.link.is_some() {
                ctxt.error(
                    &computed.path,
                    "a field is either computed, or taken from another document, or made of those that refer to it, or a side of a \
                     link: leave one of them out",
                );
            }
            if !field.layout.is_plain() || field.native {
                ctxt.error(
                    field.ty,
                    "a computed field is one number: an `i64`, `f64` or `Decimal128`",
                );
            }
            if field.stored == "_id" {
                ctxt.error(
                    &computed.path,
                    "the `_id` of a document never changes, so it is not computed",
                );
            }
            if let Some(rule) = field.rule.first() {
                ctxt.error(
                    rule,
                    "no update checks this rule, which changes what the field is computed from: put rules on these",
                );
            }
            let places = computed.formula.places();
            if places.is_empty() {
                ctxt.error(
                    &computed.path,
                    "it is computed from no field, and never changes: leave it out",
                );
            }
            for place in places {
                self.check_place(ctxt, field, place);
            }
            self.check_arrays(ctxt, &computed.formula, false);
        }
        if ctxt.is_clean() {
            self.refuse_circles(ctxt);
        }
    }

    fn check_place(&self, ctxt: &mut Ctxt, field: &Field<'_>, place: &[Ident]) {
        let Some(first) = place.first() else { return };
        if first == field.ident {
            ctxt.error(first, format!("`{first}` would be computed from itself"));
            return;
        }
        match self.field_named(first) {
            None => {
                let near = self.fields.iter().map(|other| other.ident.unraw().to_string());
                let message = match nearest(&first.unraw().to_string(), near) {
                    Some(near) => format!("there is no field `{first}` beside this one: `{near}`?"),
                    None => format!(
                        "there is no field `{first}` beside this one: what is computed is made of fields of the same document"
                    ),
                };
                ctxt.error(first, message);
            }
            Some(other) if other.layout.overflow().is_some() => ctxt.error(
                first,
                format!(
                    "the elements of `{first}` are not all in the document, so nothing is computed from them yet: how many there are is said by \
                     its `len()`"
                ),
            ),
            Some(_) => {}
        }
    }

    /// Refuses arrays that are not added up, and several that are at once.
    fn check_arrays(&self, ctxt: &mut Ctxt, formula: &Formula, is_added: bool) {
        match formula {
            Formula::Value(place) if !is_added => {
                if let Some(array) = self.array(place) {
                    ctxt.error(
                        array,
                        format!(
                            "`{array}` is an array: add up what is in its elements, `sum({array}.…)`, or count them, `len({array})`"
                        ),
                    );
                }
            }
            Formula::Value(_) | Formula::Whole(_) | Formula::Float(_) | Formula::Len(_) => {}
            Formula::Negative(of) => self.check_arrays(ctxt, of, is_added),
            Formula::Both(_, both) => {
                both.iter()
                    .for_each(|of| self.check_arrays(ctxt, of, is_added));
            }
            Formula::Sum(all) => {
                for each in all {
                    let arrays = self.arrays(each);
                    let mut arrays = arrays.iter();
                    let first = arrays.next();
                    if let Some(other) = arrays.find(|other| Some(*other) != first) {
                        ctxt.error(
                            other,
                            "a sum goes over the elements of one array: add up each by itself, `sum(…) + sum(…)`",
                        );
                    }
                    if let (true, Some(array)) = (is_added, first) {
                        ctxt.error(array, "there is no sum inside of a sum over an array");
                    } else {
                        self.check_arrays(ctxt, each, first.is_some());
                    }
                }
            }
        }
    }

    /// Refuses fields that are computed from one another.
    fn refuse_circles(&self, ctxt: &mut Ctxt) {
        let all: Vec<_> = self.computed_fields().collect();
        let ordered = self.ordered();
        let left = all.iter().filter(|(field, _)| {
            let mut ordered = ordered.iter();
            !ordered.any(|(other, _)| other.ident == field.ident)
        });
        let left: Vec<_> = left.collect();
        for (_, computed) in &left {
            let places = computed.formula.places();
            let is_left = |place: &&&[Ident]| {
                let mut left = left.iter();
                left.any(|(field, _)| place.first().is_some_and(|first| first == field.ident))
            };
            if let Some(first) = places.iter().find(is_left).and_then(|place| place.first()) {
                ctxt.error(
                    first,
                    format!("`{first}` is computed from this field, itself or through others: that never ends"),
                );
            }
        }
    }

    /// The computed fields, each behind those that it is computed from; without those that are in a circle.
    fn ordered(&self) -> Vec<(&Field<'a>, &Computed)> {
        let mut left: Vec<_> = self.computed_fields().collect();
        let mut ordered = Vec::new();
        loop {
            let is_ready = |(_, computed): &(&Field<'_>, &Computed)| {
                let places = computed.formula.places();
                let mut firsts = places.iter().filter_map(|place| place.first());
                firsts.all(|first| left.iter().all(|(field, _)| first != field.ident))
            };
            let Some(position) = left.iter().position(is_ready) else {
                return ordered;
            };
            ordered.push(left.remove(position));
        }
    }

    /// The array that a place is in, or is: a field of the document.
    fn array<'p>(&self, place: &'p [Ident]) -> Option<&'p Ident> {
        let first = place.first()?;
        let field = self.field_named(first)?;
        let is_array = matches!(
            field.layout,
            Layout::EmbedMany(_) | Layout::ReferenceMany(_)
        );
        is_array.then_some(first)
    }

    /// The arrays in whose elements a formula looks.
    fn arrays<'f>(&self, formula: &'f Formula) -> Vec<&'f Ident> {
        match formula {
            Formula::Value(place) => self.array(place).into_iter().collect(),
            Formula::Whole(_) | Formula::Float(_) | Formula::Len(_) => Vec::new(),
            Formula::Negative(of) => self.arrays(of),
            Formula::Both(_, both) => both.iter().flat_map(|of| self.arrays(of)).collect(),
            Formula::Sum(all) => all.iter().flat_map(|of| self.arrays(of)).collect(),
        }
    }

    /// What is computed, as data.
    pub(crate) fn computed(&self, private: &Private) -> Option<TokenStream> {
        let this = quote!(Self);
        let all = self.ordered().into_iter().map(|(field, computed)| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let term = self.term(&computed.formula, &this, private);
            let ty = field.ty;
            let of = quote_spanned!(ty.span()=> #private::Computation::of::<#ty>);
            quote! {
                #private::ComputedField { field: #name, stored: #stored, computation: || #of(#term) }
            }
        });
        around(&quote!(#(#all),*), |all| quote!(&[#all]))
    }

    fn term(&self, formula: &Formula, this: &TokenStream, private: &Private) -> TokenStream {
        let term = |formula| self.term(formula, this, private);
        match formula {
            Formula::Value(place) => {
                let call = match self.array(place) {
                    Some(_) => quote!(inside),
                    None => quote!(value),
                };
                let place = self.place(place, this, private);
                quote!(#private::Term::#call(#place))
            }
            Formula::Len(place) => {
                let place = steps(place, this, private);
                quote!(#private::Term::len(#place))
            }
            Formula::Whole(number) => quote!(#private::Term::Whole(#number)),
            Formula::Float(number) => quote!(#private::Term::Float(#number)),
            Formula::Negative(of) => {
                let of = term(of);
                quote!(#private::Term::Whole(0).minus(#of))
            }
            Formula::Both(operator, both) => {
                let [a, b] = &**both;
                let (a, b) = (term(a), term(b));
                let call = match operator {
                    Operator::Add => quote!(plus),
                    Operator::Subtract => quote!(minus),
                    Operator::Multiply => quote!(times),
                };
                quote!(#a.#call(#b))
            }
            Formula::Sum(all) => {
                let each = all.iter().map(|each| {
                    let own = term(each);
                    match self.arrays(each).first() {
                        None => own,
                        Some(array) => {
                            let array = steps(std::slice::from_ref(*array), this, private);
                            quote!(#own.over(#array))
                        }
                    }
                });
                let sum = each.reduce(|sum, each| quote!(#sum.plus(#each)));
                sum.unwrap_or_default()
            }
        }
    }

    /// The place of a number, in the document or in an element of an array.
    fn place(&self, place: &[Ident], this: &TokenStream, private: &Private) -> TokenStream {
        match (self.array(place), place) {
            (Some(array), [_, inside @ ..]) => {
                let document = steps(std::slice::from_ref(array), this, private);
                let last = place.last().map_or_else(|| array.span(), Ident::span);
                let element = at(quote!(#private::element(#document)), array.span());
                let inside = inside
                    .iter()
                    .map(|step| quote_spanned!(step.span()=> .#step()));
                quote_spanned!(last=> #element #(#inside)*)
            }
            _ => steps(place, this, private),
        }
    }

    /// The generated checks that each place counts in the field that is computed from it.
    pub(crate) fn computed_checks(&self, private: &Private) -> Option<TokenStream> {
        let name = &self.input.ident;
        let (_, own, _) = self.input.generics.split_for_impl();
        let this = quote!(#name #own);
        let mut checks = Vec::new();
        for (field, computed) in self.computed_fields() {
            let ty = field.ty;
            // One error for one mistake.
            if !is_surely_wrong(ty) {
                self.check_formula(&computed.formula, ty, &this, private, &mut checks);
            }
        }
        (!checks.is_empty()).then(|| layout_function(&self.input.generics, checks.into_iter()))
    }

    fn check_formula(
        &self,
        formula: &Formula,
        ty: &Type,
        this: &TokenStream,
        private: &Private,
        checks: &mut Vec<TokenStream>,
    ) {
        let mut check = |formula| self.check_formula(formula, ty, this, private, checks);
        match formula {
            Formula::Value(of) => {
                let Some(last) = of.last() else { return };
                let place = self.place(of, this, private);
                let counts = at(quote!(#private::counts::<#ty, _>), last.span());
                checks.push(quote_spanned!(last.span()=> #counts(#place);));
            }
            Formula::Len(of) => {
                let Some(last) = of.last() else { return };
                let place = steps(of, this, private);
                let has_length = at(quote!(#private::has_length), last.span());
                checks.push(quote_spanned!(last.span()=> #has_length(#place);));
            }
            Formula::Whole(_) => {}
            Formula::Float(number) => {
                let literal = quote!(#private::literal_counts::<#ty, f64>(#number););
                checks.push(at(literal, number.span()));
            }
            Formula::Negative(of) => check(of),
            Formula::Both(_, both) => both.iter().for_each(check),
            Formula::Sum(all) => all.iter().for_each(check),
        }
    }
}

/// A place of the document.
fn steps(place: &[Ident], this: &TokenStream, private: &Private) -> TokenStream {
    let steps = place
        .iter()
        .map(|step| quote_spanned!(step.span()=> .#step()));
    let span = place.last().map_or_else(|| this.span(), Ident::span);
    let fields = at(quote!(<#this as #private::Document>::fields()), span);
    quote_spanned!(span=> #fields #(#steps)*)
}

/// Whether a type is spelled as one that no computed field has: all that is computed from would be wrong too.
fn is_surely_wrong(ty: &Type) -> bool {
    const WRONG: &[&str] = &[
        "i8", "i16", "i32", "u8", "u16", "u32", "u64", "usize", "isize", "f32", "bool", "String",
    ];
    let text = ty.to_token_stream().to_string();
    WRONG.contains(&text.as_str()) || text.starts_with("Option") || text.starts_with("Vec")
}

/// The name that is most like another one, if it is like it at all.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = names.map(|other| (distance(name, &other), other));
    let near = near.filter(|(distance, _)| *distance <= name.len().div_ceil(3));
    near.min().map(|(_, name)| name)
}

/// How many letters are to be changed, added and taken away.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<_> = b.chars().collect();
    let mut row: Vec<_> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut before = i;
        let mut next = vec![i + 1];
        for ((other, above), left) in b.iter().zip(row.iter().skip(1)).zip(0..) {
            let same = before + usize::from(letter != *other);
            before = *above;
            let beside = next.get(left).copied().unwrap_or_default() + 1;
            next.push(same.min(above + 1).min(beside));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
