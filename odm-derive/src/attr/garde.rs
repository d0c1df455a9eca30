//! The attributes of the crate `garde`. The derive only needs the kinds of rules; `garde` interprets the rules.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta, Token, punctuated::Punctuated};

use super::attrs_named;

/// The validation rules of a field.
#[derive(Default)]
pub(crate) struct FieldRules<'a> {
    /// The attributes.
    pub(crate) attrs: Vec<&'a Attribute>,
    items: Vec<Meta>,
    /// Other fields that the rules read.
    pub(crate) dependencies: FieldNames,
}

/// A set of field names, or all fields.
#[derive(Default)]
pub(crate) struct FieldNames {
    all: bool,
    some: HashSet<String>,
}

impl<'a> FieldRules<'a> {
    pub(crate) fn parse(attrs: &'a [Attribute]) -> Self {
        let mut rule = Self::default();
        for attr in attrs_named(attrs, "garde") {
            rule.attrs.push(attr);
            // `garde`'s own derive reports attributes that cannot be parsed.
            let Meta::List(list) = &attr.meta else {
                continue;
            };
            rule.dependencies.collect_names(list.tokens.clone());
            if let Ok(items) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            {
                rule.items.extend(items);
            } else {
                // Closures, and other rules that do not parse as `Meta`.
                rule.items.push(syn::parse_quote!(custom));
            }
        }
        rule
    }

    /// Returns the first attribute of a field with rules.
    pub(crate) fn first_attr(&self) -> Option<&'a Attribute> {
        self.has_rules()
            .then(|| self.attrs.first().copied())
            .flatten()
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.items.iter().any(|item| !item.path().is_ident("skip"))
    }

    pub(crate) fn has_rule(&self, name: &str) -> bool {
        self.items.iter().any(|item| item.path().is_ident(name))
    }

    /// Returns whether a rule checks the value as a whole, so that a change of any part can break the rule.
    pub(crate) fn checks_whole_value(&self) -> bool {
        const PART_RULES: [&str; 5] = ["skip", "dive", "inner", "length", "required"];
        let mut items = self.items.iter();
        items.any(|item| PART_RULES.iter().all(|name| !item.path().is_ident(name)))
    }

    /// Returns the rules that apply to each element alone.
    pub(crate) fn element_rules(&self) -> impl Iterator<Item = &Meta> {
        let items = self.items.iter();
        items.filter(|item| item.path().is_ident("dive") || item.path().is_ident("inner"))
    }

    /// Returns whether the rules read other fields.
    pub(crate) fn depends_on_others(&self) -> bool {
        self.dependencies.all || !self.dependencies.some.is_empty()
    }
}

impl FieldNames {
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.all || self.some.contains(name)
    }

    /// Collects field names from `self.other` and `matches(other)`. Any other use of `self` counts as all fields.
    fn collect_names(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "self" => {
                    match (tokens.get(at + 1), tokens.get(at + 2), tokens.get(at + 3)) {
                        (_, _, Some(TokenTree::Group(_))) => self.all = true,
                        (Some(TokenTree::Punct(dot)), Some(TokenTree::Ident(name)), _)
                            if dot.as_char() == '.' =>
                        {
                            self.some.insert(name.to_string());
                        }
                        _ => self.all = true,
                    }
                }
                TokenTree::Ident(ident) if ident == "matches" => {
                    if let Some(TokenTree::Group(group)) = tokens.get(at + 1) {
                        let names = group.stream().into_iter();
                        self.some.extend(names.map(|name| name.to_string()));
                    }
                }
                TokenTree::Group(group) => self.collect_names(group.stream()),
                _ => {}
            }
        }
    }
}
