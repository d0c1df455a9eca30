//! What a reference says of what it leads to: `exists`, `on_delete`, `inverse`, `inverse_of`.

use proc_macro2::TokenStream;
use syn::{Attribute, Ident, Type, meta::ParseNestedMeta, parenthesized};

use super::{Layout, layout::is_vec, named};
use crate::{ctxt::Ctxt, model::is_option};

/// The settings of `#[reference(…)]` that are not about its layout.
pub(crate) const SETTINGS: [&str; 4] = ["exists", "inverse", "inverse_of", "on_delete"];

/// A reference with a rule, or the side of a two-way link that it is.
pub(crate) enum Link {
    /// It leads to a document that is there: `exists`, or what follows from `on_delete` and `inverse`.
    Owner {
        /// `inverse = field`: the documents that it leads to list those that refer to them.
        inverse: Option<Ident>,
        on_delete: OnDelete,
        /// Where a rule is said.
        said: Option<Ident>,
        /// Where it begins.
        at: Ident,
    },
    /// `inverse_of = field`: it lists the documents that refer to this one, and follows by itself.
    Inverse { of: Ident },
}

/// What becomes of a reference when the document that it leads to is deleted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnDelete {
    /// There is no deleting while something refers to it.
    #[default]
    Restrict,
    /// What refers to it is deleted too.
    Cascade,
    /// The reference becomes none.
    Nullify,
    /// The reference leaves its array.
    Pull,
    /// The reference stays, and leads nowhere.
    Keep,
}

const RULES: [(&str, OnDelete); 5] = [
    ("restrict", OnDelete::Restrict),
    ("cascade", OnDelete::Cascade),
    ("nullify", OnDelete::Nullify),
    ("pull", OnDelete::Pull),
    ("keep", OnDelete::Keep),
];

impl Link {
    /// What the attributes of a document's field say.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        attrs: &[Attribute],
        ty: &Type,
        layout: &Layout,
    ) -> Option<Self> {
        Said::parse(ctxt, attrs)?.checked(ctxt, ty, layout, false)
    }

    /// What those of an embedded struct's field say: rules, but nothing of another side.
    pub(crate) fn parse_embedded(
        ctxt: &mut Ctxt,
        attrs: &[Attribute],
        ty: &Type,
        layout: &Layout,
    ) -> Option<Self> {
        let said = Said::parse(ctxt, attrs)?;
        if let Some(at) = said.inverse.as_ref().or(said.inverse_of.as_ref()) {
            ctxt.error(
                at,
                "an embedded struct has no two-way links yet: leave `inverse` and `inverse_of` out, or declare this one on a field of a \
                 document; `exists` and `on_delete` are kept here too",
            );
            return None;
        }
        said.checked(ctxt, ty, layout, true)
    }

    /// Refuses what the attributes of a field say where nothing keeps links yet.
    pub(crate) fn refuse(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        let Some(said) = Said::parse(ctxt, attrs) else {
            return;
        };
        let on_delete = said.on_delete.map(|(word, _)| word);
        let at = said.inverse.or(said.inverse_of).or(said.exists);
        if let Some(at) = at.or(on_delete) {
            ctxt.error(at, no_links(place));
        }
    }
}

/// Why a place has neither links nor rules.
pub(crate) fn no_links(place: &str) -> String {
    format!(
        "{place} has no links and no rules for references yet: declare this one on a field of a document"
    )
}

#[derive(Default)]
struct Said {
    exists: Option<Ident>,
    inverse: Option<Ident>,
    inverse_of: Option<Ident>,
    on_delete: Option<(Ident, OnDelete)>,
}

impl Said {
    fn parse(ctxt: &mut Ctxt, attrs: &[Attribute]) -> Option<Self> {
        let mut said = Self::default();
        for attr in named(attrs, "reference").filter(|attr| attr.meta.require_list().is_ok()) {
            // What else is in there has been looked at as the layout.
            let mut of_link = Ok(());
            let _ = attr.parse_nested_meta(|meta| {
                let done = said.setting(&meta);
                if let Err(error) = done {
                    of_link = Err(error);
                }
                Ok(())
            });
            ctxt.ok(of_link)?;
        }
        Some(said)
    }

    fn setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string);
        match name.as_deref() {
            Some("exists") => self.exists = meta.path.get_ident().cloned(),
            Some("inverse") => self.inverse = Some(meta.value()?.parse()?),
            Some("inverse_of") => self.inverse_of = Some(meta.value()?.parse()?),
            Some("on_delete") => {
                let word: Ident = meta.value()?.parse()?;
                let rule = RULES.iter().find(|(name, _)| word == name);
                let Some((_, rule)) = rule else {
                    return Err(syn::Error::new_spanned(
                        word,
                        "what becomes of the reference? `restrict`, `cascade`, `nullify`, `pull` or `keep`",
                    ));
                };
                self.on_delete = Some((word, *rule));
            }
            _ if meta.input.peek(syn::Token![=]) => {
                meta.value()?.parse::<syn::Expr>()?;
            }
            _ if meta.input.peek(syn::token::Paren) => {
                let inside;
                parenthesized!(inside in meta.input);
                inside.parse::<TokenStream>()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn checked(
        self,
        ctxt: &mut Ctxt,
        ty: &Type,
        layout: &Layout,
        is_embedded: bool,
    ) -> Option<Link> {
        let overflows = matches!(layout, Layout::ReferenceOverflow(_));
        let is_many = overflows || matches!(layout, Layout::ReferenceMany(_));
        let word = self.on_delete.as_ref().map(|(word, _)| word);
        let at = self.inverse.as_ref().or(self.inverse_of.as_ref());
        let at = at.or(self.exists.as_ref()).or(word)?.clone();
        if !is_many && is_vec(ty) {
            ctxt.error(
                at,
                "how many can there be? Each change of a link rewrites its array, so it has a bound: say `max = N`; where there can be \
                 very many, let an inverse overflow, or let only the other side refer to this one, and find them by `with_children`",
            );
            return None;
        }
        if overflows && self.inverse_of.is_none() {
            ctxt.error(
                at,
                "references with a rule do not overflow yet: say `max = N`, leave the rule out, or let the other side have the rule and this \
                 one follow it, `#[reference(inverse_of = …, overflow(…))]`",
            );
            return None;
        }
        if let Some(of) = self.inverse_of {
            let wrong = self.inverse.as_ref().map(|inverse| (
                inverse,
                "one side of a link is written by the application, and says `inverse`; the other one follows, and says `inverse_of`",
            ));
            let wrong = wrong.or(self.exists.as_ref().or(word).map(|rule| {
                (
                    rule,
                    "this side follows the other one by itself: say it there",
                )
            }));
            if let Some((at, message)) = wrong {
                ctxt.error(at, message);
                return None;
            }
            if !is_many && !is_option(ty) {
                ctxt.error(
                    ty,
                    "nothing may refer to this yet: the inverse of a link is an `Option<Ref<…>>`, with a `max` a `Vec<Ref<…>>`, or with \
                     `overflow(…)` an `Overflow<Ref<…>>`",
                );
                return None;
            }
            return Some(Link::Inverse { of });
        }
        if let Some((word, rule)) = &self.on_delete {
            let wrong = match rule {
                OnDelete::Nullify if !is_option(ty) => {
                    Some("only an `Option<Ref<…>>` can become none: say `restrict` or `cascade`")
                }
                // It leaves with the struct that it is in: that there is an array of these is seen where they are embedded.
                OnDelete::Pull if !is_many && !is_embedded => Some(
                    "only an array of references can lose one: say `restrict`, `cascade` or, for an `Option`, `nullify`",
                ),
                _ => None,
            };
            if let Some(message) = wrong {
                ctxt.error(word, message);
            }
        }
        let (said, on_delete) = self.on_delete.unzip();
        Some(Link::Owner {
            inverse: self.inverse,
            on_delete: on_delete.unwrap_or_default(),
            said,
            at,
        })
    }
}
