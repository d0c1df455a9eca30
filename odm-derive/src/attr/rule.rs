//! The attributes of the crate `garde`: what kinds of rules a field has. What they say exactly is that crate's.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta, Token, punctuated::Punctuated};

use super::named;

/// The rules of a field.
#[derive(Default)]
pub(crate) struct Rule<'a> {
    /// The attributes.
    pub(crate) attrs: Vec<&'a Attribute>,
    items: Vec<Meta>,
    /// The fields that the rules look at, beside their own.
    pub(crate) looks_at: Names,
}

/// Some names of fields, or all.
#[derive(Default)]
pub(crate) struct Names {
    all: bool,
    some: HashSet<String>,
}

impl<'a> Rule<'a> {
    pub(crate) fn parse(attrs: &'a [Attribute]) -> Self {
        let mut rule = Self::default();
        for attr in named(attrs, "garde") {
            rule.attrs.push(attr);
            // What cannot be read is reported by `garde`'s own derive.
            let Meta::List(list) = &attr.meta else {
                continue;
            };
            rule.looks_at.note(list.tokens.clone());
            if let Ok(items) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            {
                rule.items.extend(items);
            } else {
                // Closures, and whatever else is no path with arguments.
                rule.items.push(syn::parse_quote!(custom));
            }
        }
        rule
    }

    /// An attribute with a rule, if there is one.
    pub(crate) fn first(&self) -> Option<&'a Attribute> {
        self.is_ruled()
            .then(|| self.attrs.first().copied())
            .flatten()
    }

    pub(crate) fn is_ruled(&self) -> bool {
        self.items.iter().any(|item| !item.path().is_ident("skip"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.items.iter().any(|item| item.path().is_ident(name))
    }

    /// Whether some rule is about the value as a whole, whatever of it changes.
    pub(crate) fn is_whole(&self) -> bool {
        const OF_PARTS: [&str; 5] = ["skip", "dive", "inner", "length", "required"];
        let mut items = self.items.iter();
        items.any(|item| OF_PARTS.iter().all(|name| !item.path().is_ident(name)))
    }

    /// The rules that elements have by themselves.
    pub(crate) fn of_elements(&self) -> impl Iterator<Item = &Meta> {
        let items = self.items.iter();
        items.filter(|item| item.path().is_ident("dive") || item.path().is_ident("inner"))
    }

    /// Whether they look at other fields.
    pub(crate) fn is_entangled(&self) -> bool {
        self.looks_at.all || !self.looks_at.some.is_empty()
    }
}

impl Names {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all || self.some.contains(name)
    }

    /// `self.other` and `matches(other)`; `self` alone may be anything.
    fn note(&mut self, tokens: TokenStream) {
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
                TokenTree::Group(group) => self.note(group.stream()),
                _ => {}
            }
        }
    }
}
