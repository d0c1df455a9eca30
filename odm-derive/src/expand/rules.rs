//! Code generation for validation of single fields: a struct with one field and its attributes, which `garde` validates.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Path, ext::IdentExt, spanned::Spanned};

use super::{PrivatePath, fields::stored_item};
use crate::{
    attr::attrs_named,
    ctxt::Ctxt,
    model::{Field, Model},
};

impl Model<'_> {
    /// Returns the generated item `RULES` of a document. `setting` is the attribute setting, for error messages.
    pub(crate) fn document_rules(
        &self,
        ctxt: &mut Ctxt,
        setting: &Path,
        private: &PrivatePath,
    ) -> TokenStream {
        self.rules_item(ctxt, setting, private, |broken, rules| {
            quote_spanned! {setting.span()=>
                const RULES: #private::Option<&'static #private::WholeRules<Self>> =
                    #private::Some(&#private::WholeRules { find_violations: #broken, fields: #rules });
            }
        })
    }

    /// Returns the generated item `RULES` of an embedded struct.
    pub(crate) fn embedded_rules(
        &self,
        ctxt: &mut Ctxt,
        setting: &Path,
        private: &PrivatePath,
    ) -> TokenStream {
        self.rules_item(ctxt, setting, private, |broken, rules| {
            quote_spanned! {setting.span()=>
                const RULES: #private::Rules = {
                    let _ = #broken;
                    #rules
                };
            }
        })
    }

    /// Returns an item that contains the check of a whole value and the rules of the fields.
    fn rules_item(
        &self,
        ctxt: &mut Ctxt,
        setting: &Path,
        private: &PrivatePath,
        item: impl FnOnce(TokenStream, TokenStream) -> TokenStream,
    ) -> TokenStream {
        if self.reports_context(ctxt, setting) {
            return TokenStream::new();
        }
        let broken = quote_spanned!(setting.span()=> #private::find_violations::<Self>);
        let item = item(broken, self.rules_expression(private));
        quote_spanned!(setting.span()=> #private::validated! { #item })
    }

    /// Reports rules that need a context, which no write can provide.
    fn reports_context(&self, ctxt: &mut Ctxt, setting: &Path) -> bool {
        for attr in attrs_named(&self.input.attrs, "garde") {
            if let syn::Meta::List(list) = &attr.meta
                && list.tokens.to_string().starts_with("context")
            {
                ctxt.error_at(
                    setting,
                    "a write has no context for the rules: remove `#[garde(context(…))]`",
                );
                return true;
            }
        }
        false
    }

    fn rules_expression(&self, private: &PrivatePath) -> TokenStream {
        let is_dependency = |name: &str| {
            let mut fields = self.fields.iter();
            fields.any(|field| field.rules.has_rules() && field.rules.dependencies.has_name(name))
        };
        let checks = self.fields.iter().map(|field| {
            let name = field.ident.unraw().to_string();
            let is_dependent = field.rules.depends_on_others() || is_dependency(&name);
            let rule = self.field_rule(field, is_dependent, private);
            let stored = &field.stored;
            quote!(#stored => { #rule })
        });
        let names = self.fields.iter().map(|field| {
            let (name, stored) = (field.ident.unraw().to_string(), &field.stored);
            let rules = stored_item(field.ty, private, &quote!(RULES));
            quote!(#name => (#stored, (#rules.stored)(rest)),)
        });
        quote! {{
            fn __check(path: &[&str], proposed: #private::Proposed<'_>, verdict: &mut #private::Verdict<'_>) {
                let #private::Some((name, rest)) = path.split_first() else {
                    return verdict.mark_undecided();
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

    /// Returns the generated check of one field.
    fn field_rule(
        &self,
        field: &Field<'_>,
        is_dependent: bool,
        private: &PrivatePath,
    ) -> TokenStream {
        let (rule, ty) = (&field.rules, field.ty);
        let has_rules = rule.has_rules();
        if !has_rules && !is_dependent {
            return TokenStream::new();
        }
        // A struct with a single field lacks the other fields and the type parameters.
        let is_alone = has_rules && !is_dependent && self.input.generics.params.is_empty();
        let attrs = &rule.attrs;
        let attributes = quote!(#(#attrs)*);
        let check = self.check_function(field, is_alone.then_some(attributes), private);
        let of_elements: Vec<_> = rule.element_rules().collect();
        let elements =
            is_alone && !of_elements.is_empty() && !rule.has_rule("adapt") && !rule.has_rule("if");
        let elements = elements.then(|| quote!(#[garde(#(#of_elements),*)]));
        let elements = self.check_function(field, elements, private);
        let rules = stored_item(ty, private, &quote!(RULES));
        let inner_rules = match rule.has_rule("dive") {
            true => quote!(#private::Some(#rules)),
            false => quote!(#private::None),
        };
        let (has_inner, has_length) = (rule.has_rule("inner"), rule.has_rule("length"));
        let checks_whole = rule.checks_whole_value();
        quote! {
            verdict.field(
                &#private::FieldRule {
                    check: #check,
                    elements: #elements,
                    type_rules: #inner_rules,
                    is_ruled: #has_rules,
                    has_inner: #has_inner,
                    has_length: #has_length,
                    is_whole: #checks_whole,
                    is_entangled: #is_dependent,
                    parts: #rules.parts,
                },
                rest,
                proposed,
            )
        }
    }

    /// Returns a function that validates a value with these attributes.
    fn check_function(
        &self,
        field: &Field<'_>,
        attrs: Option<TokenStream>,
        private: &PrivatePath,
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
