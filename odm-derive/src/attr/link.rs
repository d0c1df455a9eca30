//! What a reference says of what it leads to: `exists`, `on_delete`, `inverse`, `inverse_of`.

use syn::{Attribute, Ident, Type, ext::IdentExt, meta::ParseNestedMeta};

use super::{Layout, flag, layout::is_vec, named, skip_value, value_by};
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
        Said::parse(attrs).checked(ctxt, ty, layout, false)
    }

    /// What those of an embedded struct's field say: rules, but nothing of another side.
    pub(crate) fn parse_embedded(
        ctxt: &mut Ctxt,
        attrs: &[Attribute],
        ty: &Type,
        layout: &Layout,
    ) -> Option<Self> {
        let said = Said::parse(attrs);
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
        let said = Said::parse(attrs);
        let on_delete = said.on_delete.map(|(word, _)| word);
        let at = said.inverse.or(said.inverse_of).or(said.exists);
        if let Some(at) = at.or(on_delete) {
            ctxt.error(at, no_links(place));
        }
    }
}

const INVERSE: &str = "which field of the document that it leads to lists those that refer to it? Name it: `inverse = tasks`";
const INVERSE_OF: &str =
    "which reference there leads to this document? Name it: `inverse_of = owner`";
const ON_DELETE: &str =
    "what becomes of the reference? `on_delete = restrict`, `cascade`, `nullify`, `pull` or `keep`";

/// Why a place has neither links nor rules.
pub(crate) fn no_links(place: &str) -> String {
    format!(
        "{place} has no links and no rules for references yet: declare this one on a field of a document"
    )
}

#[derive(Default)]
pub(super) struct Said {
    exists: Option<Ident>,
    inverse: Option<Ident>,
    inverse_of: Option<Ident>,
    /// Whether it says `inverse_of`, rightly or not.
    is_inverse: bool,
    on_delete: Option<(Ident, OnDelete)>,
}

/// Whether these attributes say that a field is the inverse of a link.
pub(super) fn is_inverse(attrs: &[Attribute]) -> bool {
    Said::parse(attrs).is_inverse
}

impl Said {
    /// What can be understood: the rest was reported with the layout.
    fn parse(attrs: &[Attribute]) -> Self {
        let mut said = Self::default();
        for attr in named(attrs, "reference") {
            let _ = attr.parse_nested_meta(|meta| {
                let _ = said.setting(&meta);
                skip_value(&meta)
            });
        }
        said
    }

    pub(super) fn setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let Some(name) = path.get_ident() else {
            return Ok(());
        };
        match name.to_string().as_str() {
            "exists" => {
                flag(path, input)?;
                self.exists = Some(name.clone());
            }
            "inverse" => self.inverse = Some(value_by(path, input, INVERSE, Ident::parse_any)?),
            "inverse_of" => {
                self.is_inverse = true;
                self.inverse_of = Some(value_by(path, input, INVERSE_OF, Ident::parse_any)?);
            }
            "on_delete" => {
                let word = value_by(path, input, ON_DELETE, Ident::parse_any)?;
                let rule = RULES.iter().find(|(name, _)| word == name);
                let Some((_, rule)) = rule else {
                    return Err(syn::Error::new_spanned(word, ON_DELETE));
                };
                self.on_delete = Some((word, *rule));
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
        // What is wrong with the layout is reported, and so how many it can be of.
        let is_wrong = matches!(layout, Layout::Wrong);
        let overflows = matches!(layout, Layout::ReferenceOverflow(_));
        let is_many = is_wrong || overflows || matches!(layout, Layout::ReferenceMany(_));
        let word = self.on_delete.as_ref().map(|(word, _)| word);
        let at = self.inverse.as_ref().or(self.inverse_of.as_ref());
        let at = at.or(self.exists.as_ref()).or(word)?.clone();
        if !is_many && is_vec(ty) {
            let overflow = if is_embedded {
                ""
            } else {
                "let it overflow, or "
            };
            let message = format!(
                "how many can there be? Each change of a link rewrites its array, so it has a bound: say `max = N`; where there can be \
                 very many, {overflow}let only the other side refer to this one, and find them by `with_children`",
            );
            ctxt.error(at, message);
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
                OnDelete::Nullify if is_vec(ty) || overflows => {
                    Some("a reference leaves an array by `pull`: say `on_delete = pull`")
                }
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
