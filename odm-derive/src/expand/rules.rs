//! The rules of a model's fields, each by itself: a struct of one field with the field's attributes, checked by `garde`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Path, ext::IdentExt, spanned::Spanned};

use super::{Private, fields::of_stored};
use crate::{
    attr::named,
    ctxt::Ctxt,
    model::{Field, Model},
};

impl Model<'_> {
    /// The generated item `RULES` of a document; `said` is where it is asked for.
    pub(crate) fn document_rules(
        &self,
        ctxt: &mut Ctxt,
        said: &Path,
        private: &Private,
    ) -> TokenStream {
        self.rules_item(ctxt, said, private, |broken, rules| {
            quote_spanned! {said.span()=>
                const RULES: #private::Option<&'static #private::WholeRules<Self>> =
                    #private::Some(&#private::WholeRules { broken: #broken, fields: #rules });
            }
        })
    }

    /// The generated item `RULES` of an embedded struct.
    pub(crate) fn embedded_rules(
        &self,
        ctxt: &mut Ctxt,
        said: &Path,
        private: &Private,
    ) -> TokenStream {
        self.rules_item(ctxt, said, private, |broken, rules| {
            quote_spanned! {said.span()=>
                const RULES: #private::Rules = {
                    let _ = #broken;
                    #rules
                };
            }
        })
    }

    /// An item made of what checks a whole value, and of the rules of the fields.
    fn rules_item(
        &self,
        ctxt: &mut Ctxt,
        said: &Path,
        private: &Private,
        item: impl FnOnce(TokenStream, TokenStream) -> TokenStream,
    ) -> TokenStream {
        if self.need_context(ctxt, said) {
            return TokenStream::new();
        }
        let broken = quote_spanned!(said.span()=> #private::broken::<Self>);
        let item = item(broken, self.rules(private));
        quote_spanned!(said.span()=> #private::validated! { #item })
    }

    /// Whether the rules need what no write has, which is reported.
    fn need_context(&self, ctxt: &mut Ctxt, said: &Path) -> bool {
        for attr in named(&self.input.attrs, "garde") {
            if let syn::Meta::List(list) = &attr.meta
                && list.tokens.to_string().starts_with("context")
            {
                ctxt.error(
                    said,
                    "a write has no context to give to the rules: leave `#[garde(context(…))]` out",
                );
                return true;
            }
        }
        false
    }

    fn rules(&self, private: &Private) -> TokenStream {
        let looked_at = |name: &str| {
            let mut fields = self.fields.iter();
            fields.any(|field| field.rule.is_ruled() && field.rule.looks_at.has(name))
        };
        let checks = self.fields.iter().map(|field| {
            let name = field.ident.unraw().to_string();
            let is_entangled = field.rule.is_entangled() || looked_at(&name);
            let rule = self.rule(field, is_entangled, private);
            let stored = &field.stored;
            quote!(#stored => { #rule })
        });
        let names = self.fields.iter().map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let rules = of_stored(field.ty, private, &quote!(RULES));
            quote!(#name => (#stored, (#rules.stored)(rest)),)
        });
        quote! {{
            fn __check(path: &[&str], proposed: #private::Proposed<'_>, verdict: &mut #private::Verdict<'_>) {
                let #private::Some((name, rest)) = path.split_first() else {
                    return verdict.leave_open();
                };
                match *name {
                    #(#checks)*
                    _ => {}
                }
            }
            #private::Rules {
                check: __check,
                stored: |path| {
                    let #private::Some((name, rest)) = path.split_first() else {
                        return #private::Vec::new();
                    };
                    let (stored, rest): (&str, #private::Vec<::std::string::String>) = match *name {
                        #(#names)*
                        other => (other, (#private::Rules::UNKNOWN.stored)(rest)),
                    };
                    let mut names = ::std::vec![::std::string::String::from(stored)];
                    names.extend(rest);
                    names
                },
                parts: #private::Parts::Fields,
            }
        }}
    }

    /// The generated check of one field.
    fn rule(&self, field: &Field<'_>, is_entangled: bool, private: &Private) -> TokenStream {
        let (rule, ty) = (&field.rule, field.ty);
        let is_ruled = rule.is_ruled();
        if !is_ruled && !is_entangled {
            return TokenStream::new();
        }
        // A struct of one field knows neither the others nor the parameters of the type.
        let is_alone = is_ruled && !is_entangled && self.input.generics.params.is_empty();
        let attrs = &rule.attrs;
        let whole = quote!(#(#attrs)*);
        let check = self.check(field, is_alone.then_some(whole), private);
        let of_elements: Vec<_> = rule.of_elements().collect();
        let elements = is_alone && !of_elements.is_empty() && !rule.has("adapt") && !rule.has("if");
        let elements = elements.then(|| quote!(#[garde(#(#of_elements),*)]));
        let elements = self.check(field, elements, private);
        let rules = of_stored(ty, private, &quote!(RULES));
        let inside = match rule.has("dive") {
            true => quote!(#private::Some(#rules)),
            false => quote!(#private::None),
        };
        let (has_inner, has_length) = (rule.has("inner"), rule.has("length"));
        let is_whole = rule.is_whole();
        quote! {
            verdict.field(
                &#private::FieldRule {
                    check: #check,
                    elements: #elements,
                    inside: #inside,
                    is_ruled: #is_ruled,
                    has_inner: #has_inner,
                    has_length: #has_length,
                    is_whole: #is_whole,
                    is_entangled: #is_entangled,
                    parts: #rules.parts,
                },
                rest,
                proposed,
            )
        }
    }

    /// The generated function that checks a value by these attributes.
    fn check(
        &self,
        field: &Field<'_>,
        attrs: Option<TokenStream>,
        private: &Private,
    ) -> TokenStream {
        let Some(attrs) = attrs else {
            return quote!(#private::None);
        };
        let (ident, ty) = (field.ident, field.ty);
        let rule = format_ident!("__Rule");
        quote! {{
            #[derive(#private::garde::Validate)]
            struct #rule {
                #attrs
                #ident: #ty,
            }
            #private::Some(|value| #private::checked::<#rule, #ty>(&value, |#ident| #rule { #ident }))
        }}
    }
}
