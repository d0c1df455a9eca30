//! Link settings of a reference: `exists`, `on_delete`, `inverse`, `inverse_of`.

use syn::{Attribute, Ident, Type, ext::IdentExt, meta::ParseNestedMeta};

use super::{Layout, attrs_named, expect_flag, layout::is_vec, parse_value_with, skip_value};
use crate::{ctxt::Ctxt, model::is_option};

/// The settings of `#[reference(…)]` that do not concern the layout.
pub(crate) const LINK_SETTINGS: [&str; 4] = ["exists", "inverse", "inverse_of", "on_delete"];

/// A reference with a delete rule, or the inverse of such a reference.
pub(crate) enum LinkAttr {
    /// A reference with a target that must exist: `exists`, `on_delete` or `inverse`.
    Reference {
        /// `inverse = field`: the inverse field in the target model.
        inverse: Option<Ident>,
        on_delete: OnDelete,
        /// The delete rule as written, for error messages.
        rule_word: Option<Ident>,
        /// The first setting of the link, for error messages.
        at: Ident,
    },
    /// `inverse_of = field`: the inverse, which the framework derives from references to this document.
    Inverse { of: Ident },
}

/// The delete rule of a reference: what happens to the referrer when the target is deleted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OnDelete {
    /// The target cannot be deleted while the reference exists.
    #[default]
    Restrict,
    /// The referrer is deleted too.
    Cascade,
    /// The reference is set to `None`.
    Nullify,
    /// The reference is removed from its array.
    Pull,
    /// The reference stays and dangles.
    Keep,
}

const RULES: [(&str, OnDelete); 5] = [
    ("restrict", OnDelete::Restrict),
    ("cascade", OnDelete::Cascade),
    ("nullify", OnDelete::Nullify),
    ("pull", OnDelete::Pull),
    ("keep", OnDelete::Keep),
];

impl LinkAttr {
    /// Parses the link settings of a document's field.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        attrs: &[Attribute],
        ty: &Type,
        layout: &Layout,
    ) -> Option<Self> {
        LinkSettings::parse(attrs).into_link(ctxt, ty, layout, false)
    }

    /// Parses the link settings of an embedded struct's field: delete rules without an inverse.
    pub(crate) fn parse_embedded(
        ctxt: &mut Ctxt,
        attrs: &[Attribute],
        ty: &Type,
        layout: &Layout,
    ) -> Option<Self> {
        let settings = LinkSettings::parse(attrs);
        if let Some(at) = settings.inverse.as_ref().or(settings.inverse_of.as_ref()) {
            ctxt.error_at(
                at,
                "an embedded struct cannot have two-way links yet: remove `inverse` and `inverse_of`, or declare the link on a \
                 field of a document; `exists` and `on_delete` work here too",
            );
            return None;
        }
        settings.into_link(ctxt, ty, layout, true)
    }

    /// Reports link settings in places that do not support links yet.
    pub(crate) fn ensure_absent(ctxt: &mut Ctxt, attrs: &[Attribute], place: &str) {
        let settings = LinkSettings::parse(attrs);
        let on_delete = settings.on_delete.map(|(word, _)| word);
        let at = settings.inverse.or(settings.inverse_of).or(settings.exists);
        if let Some(at) = at.or(on_delete) {
            ctxt.error_at(at, no_links_message(place));
        }
    }
}

const INVERSE_USAGE: &str =
    "`inverse` needs the name of the inverse field in the target model: `inverse = tasks`";
const INVERSE_OF_USAGE: &str =
    "`inverse_of` needs the name of the reference in the other model: `inverse_of = owner`";
const REFERENCE_ON_DELETE_USAGE: &str =
    "unknown delete rule: write `on_delete = restrict`, `cascade`, `nullify`, `pull` or `keep`";

/// Returns the error message for link settings in a place without link support.
pub(crate) fn no_links_message(place: &str) -> String {
    format!(
        "{place} cannot have links or delete rules yet: declare the reference on a field of a document"
    )
}

#[derive(Default)]
pub(super) struct LinkSettings {
    exists: Option<Ident>,
    inverse: Option<Ident>,
    inverse_of: Option<Ident>,
    /// Whether the setting `inverse_of` is present, even if its value is invalid.
    is_inverse: bool,
    on_delete: Option<(Ident, OnDelete)>,
}

/// Returns whether the attributes declare an inverse.
pub(super) fn is_inverse(attrs: &[Attribute]) -> bool {
    LinkSettings::parse(attrs).is_inverse
}

impl LinkSettings {
    /// Parses the valid settings. `Layout::parse` has reported the invalid settings.
    fn parse(attrs: &[Attribute]) -> Self {
        let mut settings = Self::default();
        for attr in attrs_named(attrs, "reference") {
            let _ = attr.parse_nested_meta(|meta| {
                let _ = settings.parse_setting(&meta);
                skip_value(&meta)
            });
        }
        settings
    }

    pub(super) fn parse_setting(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let (path, input) = (&meta.path, meta.input);
        let Some(name) = path.get_ident() else {
            return Ok(());
        };
        match name.to_string().as_str() {
            "exists" => {
                expect_flag(path, input)?;
                self.exists = Some(name.clone());
            }
            "inverse" => {
                self.inverse = Some(parse_value_with(
                    path,
                    input,
                    INVERSE_USAGE,
                    Ident::parse_any,
                )?)
            }
            "inverse_of" => {
                self.is_inverse = true;
                self.inverse_of = Some(parse_value_with(
                    path,
                    input,
                    INVERSE_OF_USAGE,
                    Ident::parse_any,
                )?);
            }
            "on_delete" => {
                let word =
                    parse_value_with(path, input, REFERENCE_ON_DELETE_USAGE, Ident::parse_any)?;
                let rule = RULES.iter().find(|(name, _)| word == name);
                let Some((_, rule)) = rule else {
                    return Err(syn::Error::new_spanned(word, REFERENCE_ON_DELETE_USAGE));
                };
                self.on_delete = Some((word, *rule));
            }
            _ => {}
        }
        Ok(())
    }

    fn into_link(
        self,
        ctxt: &mut Ctxt,
        ty: &Type,
        layout: &Layout,
        is_embedded: bool,
    ) -> Option<LinkAttr> {
        // With an invalid layout the derive cannot know the number of references, so it accepts any.
        let is_wrong = matches!(layout, Layout::Invalid);
        let overflows = matches!(layout, Layout::ReferenceOverflow(_));
        let is_many = is_wrong || overflows || matches!(layout, Layout::ReferenceMany(_));
        let word = self.on_delete.as_ref().map(|(word, _)| word);
        let at = self.inverse.as_ref().or(self.inverse_of.as_ref());
        let at = at.or(self.exists.as_ref()).or(word)?.clone();
        if !is_many && is_vec(ty) {
            let overflow = if is_embedded {
                ""
            } else {
                "make it an overflow array, or "
            };
            let message = format!(
                "each change of a reference rewrites the array, so the array needs a limit: add `max = N`; for very many references, \
                 {overflow}keep only the reference in the other model, and read it by `with_children`",
            );
            ctxt.error_at(at, message);
            // Keep the inverse: without it, the reference in the other model would be an error too.
            return self.inverse_of.map(|of| LinkAttr::Inverse { of });
        }
        if let Some(of) = self.inverse_of {
            let conflict = self.inverse.as_ref().map(|inverse| (
                inverse,
                "`inverse` and `inverse_of` exclude each other: write `inverse` on the reference, `inverse_of` on the inverse",
            ));
            let conflict = conflict.or(self.exists.as_ref().or(word).map(|rule| {
                (
                    rule,
                    "the framework maintains the inverse: move the setting to the reference",
                )
            }));
            if let Some((at, message)) = conflict {
                ctxt.error_at(at, message);
                return None;
            }
            if !is_many && !is_option(ty) {
                ctxt.error_at(
                    ty,
                    "an inverse must be able to be empty: use an `Option<Ref<…>>`, with a `max` a `Vec<Ref<…>>`, or \
                     with `overflow(…)` an `Overflow<Ref<…>>`",
                );
                return None;
            }
            return Some(LinkAttr::Inverse { of });
        }
        if let Some((word, rule)) = &self.on_delete {
            let conflict = match rule {
                OnDelete::Nullify if is_vec(ty) || overflows => {
                    Some("`nullify` cannot change an array: write `on_delete = pull`")
                }
                OnDelete::Nullify if !is_option(ty) => Some(
                    "`nullify` needs an `Option<Ref<…>>`: make the reference optional, or write `restrict` or `cascade`",
                ),
                // A reference in an embedded struct is pulled together with the struct; the document's derive checks that the
                // struct is in an array.
                OnDelete::Pull if !is_many && !is_embedded => Some(
                    "`pull` needs an array of references: write `restrict`, `cascade` or, for an `Option`, `nullify`",
                ),
                _ => None,
            };
            if let Some(message) = conflict {
                ctxt.error_at(word, message);
            }
        }
        let (rule_word, on_delete) = self.on_delete.unzip();
        Some(LinkAttr::Reference {
            inverse: self.inverse,
            on_delete: on_delete.unwrap_or_default(),
            rule_word,
            at,
        })
    }
}
