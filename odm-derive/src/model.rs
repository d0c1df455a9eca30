//! The input of `Document` and `Embedded`: parsed, and checked as far as the input alone tells.

use quote::{ToTokens, format_ident};
use syn::{
    Attribute, Data, DeriveInput, Fields, Ident, LitStr, Token, Type, Visibility, ext::IdentExt,
    punctuated::Punctuated,
};

use crate::{
    attr::{
        Computed, Derived, Filled, Layout, Link, Options, Rule, SerdeContainer, SerdeDefault,
        SerdeField, Tally, What, named, parse_field,
    },
    ctxt::Ctxt,
    expand::mentions,
};

/// A struct with named fields.
pub(crate) struct Model<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) fields: Vec<Field<'a>>,
    /// The fields that are not stored: serde's `skip`.
    pub(crate) skipped: Vec<&'a Ident>,
    pub(crate) serde: SerdeContainer,
}

/// A field that is stored.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) ty: &'a Type,
    pub(crate) docs: Vec<&'a Attribute>,
    /// The name under which serde writes it.
    pub(crate) stored: String,
    pub(crate) layout: Layout,
    pub(crate) indexes: Vec<Options>,
    /// serde's `default` on it: a document may lack it.
    pub(crate) default: Option<SerdeDefault>,
    /// serde's `skip_serializing_if`.
    pub(crate) skip_if: Option<LitStr>,
    /// serde's `with = "odm::native"`.
    pub(crate) native: bool,
    /// What the framework keeps in it.
    pub(crate) filled: Option<What>,
    /// The side of a two-way link that it is.
    pub(crate) link: Option<Link>,
    /// Where its value comes from, if not from the application alone.
    pub(crate) derived: Option<Derived>,
    /// What it is made of by other documents.
    pub(crate) tally: Option<Tally>,
    /// How it is computed, if it is.
    pub(crate) computed: Option<Computed>,
    /// The rules for its values.
    pub(crate) rule: Rule<'a>,
    /// Whether nothing is wrong with its attributes.
    pub(crate) is_right: bool,
}

/// What a variant is called in messages.
pub(crate) const VARIANT: &str = "a variant of an enum";

impl<'a> Model<'a> {
    /// Understands a struct with named fields; `what` is the derive that asks.
    ///
    /// `place` says what it is: not everywhere can be links.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        what: &str,
        place: Place,
    ) -> Option<Self> {
        let serde = SerdeContainer::parse(ctxt, &input.attrs);
        let mut skipped = Vec::new();
        let mut fields = Vec::new();
        for field in named_fields(ctxt, input, what)? {
            match Field::parse(ctxt, field, &serde, place) {
                Some(field) => fields.push(field),
                None => skipped.extend(&field.ident),
            }
        }
        refuse_same_names(ctxt, &fields);
        Some(Self {
            input,
            fields,
            skipped,
            serde,
        })
    }

    /// Finds the fields that the framework writes.
    pub(crate) fn fill(&mut self, ctxt: &mut Ctxt, filled: &[Filled]) {
        for Filled { what, field: name } in filled {
            let Some(field) = self.fields.iter_mut().find(|field| field.ident == name) else {
                ctxt.error(
                    name,
                    format!("there is no field `{name}`: {}", what.remedy()),
                );
                continue;
            };
            if field.filled.replace(*what).is_some() {
                ctxt.error(name, format!("the framework fills `{name}` already"));
            }
            let is_one = match what {
                What::Scope => matches!(field.layout, Layout::Plain | Layout::Reference),
                _ => field.layout.is_plain(),
            };
            if field.stored == "_id" || !is_one {
                ctxt.error(name, what.remedy());
            }
            if *what == What::Scope && is_parameter(self.input, field.ty) {
                ctxt.error(field.ty, "the type of a scope is no parameter of the model");
            }
        }
    }

    /// What a field says itself that the framework fills it, where that is refused.
    pub(crate) fn forget_filled(&mut self) {
        for field in &mut self.fields {
            let of_others = [What::Copy, What::Computed, What::Inverse, What::Tally];
            field.filled = field.filled.filter(|what| !of_others.contains(what));
        }
    }

    /// The field of this name in Rust.
    pub(crate) fn field_named(&self, name: &Ident) -> Option<&Field<'a>> {
        self.fields.iter().find(|field| field.ident == name)
    }

    /// Whether the framework writes some of the fields.
    pub(crate) fn is_filled(&self) -> bool {
        self.fields.iter().any(|field| field.filled.is_some())
    }

    /// The name of the generated field tree.
    pub(crate) fn fields_ident(&self) -> Ident {
        fields_ident(self.input)
    }
}

/// The name of the field tree that is generated for a type.
pub(crate) fn fields_ident(input: &DeriveInput) -> Ident {
    format_ident!("{}Fields", input.ident.unraw())
}

/// What has a field.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Document,
    Embedded,
    Variant,
}

impl<'a> Field<'a> {
    /// Understands a field with a name.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        field: &'a syn::Field,
        container: &SerdeContainer,
        place: Place,
    ) -> Option<Self> {
        let ident = field.ident.as_ref()?;
        let errors_before = ctxt.len();
        let serde = SerdeField::parse(ctxt, &field.attrs);
        if serde.skip {
            for attr in [
                "embed",
                "reference",
                "index",
                "denormalize",
                "snapshot",
                "count",
                "sum",
                "latest",
                "computed",
            ]
            .iter()
            .flat_map(|name| named(&field.attrs, name))
            {
                ctxt.error(attr, "serde skips this field: it is not stored");
            }
            return None;
        }
        let stored = stored_name(ident, &serde, container);
        if let Some(reason) = refuse_name(&stored) {
            match &serde.rename {
                Some(rename) => ctxt.error(rename, reason),
                None => ctxt.error(ident, reason),
            }
        }
        if serde.native && serde.default.is_none() && is_option(&field.ty) {
            ctxt.error(
                &field.ty,
                "serde takes a missing field for an error here: add `default`, `#[serde(default, with = \"odm::native\")]`",
            );
        }
        if let Some(when) = &serde.skip_if
            && serde.default.is_none()
            && !is_option(&field.ty)
            // An `Option` by another name.
            && !when.value().ends_with("Option::is_none")
        {
            ctxt.error(
                when,
                format!(
                    "what is skipped is missing when the document is read: add `default`, \
                     `#[serde(default, skip_serializing_if = \"{}\")]`",
                    when.value()
                ),
            );
        }
        let layout = Layout::parse(ctxt, &field.attrs, &field.ty);
        let layout = match place {
            Place::Document => layout,
            Place::Embedded => layout.without_overflow(ctxt, &field.ty, "an embedded struct"),
            Place::Variant => layout.without_overflow(ctxt, &field.ty, VARIANT),
        };
        if serde.default == Some(SerdeDefault::Function) && !layout.is_plain() {
            ctxt.error(
                ident,
                "what a missing array, map or struct reads as by a function would be seen by no filter: leave the function out, \
                 `#[serde(default)]`, or bring older documents up to date by a `schema_version` with an `upgrade`",
            );
        }
        let link = match place {
            Place::Document => Link::parse(ctxt, &field.attrs, &field.ty, &layout),
            Place::Embedded => Link::parse_embedded(ctxt, &field.attrs, &field.ty, &layout),
            Place::Variant => {
                Link::refuse(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        if named(&field.attrs, "latest").next().is_some() && !is_spelled(&field.ty, &["Vec"]) {
            ctxt.error(
                &field.ty,
                "the latest of several are an array: let it be a `Vec` of a struct with `#[embedded(of = …)]`",
            );
        }
        let derived = Derived::parse(ctxt, &field.attrs);
        let tally = match place {
            Place::Document => Tally::parse(ctxt, &field.attrs),
            Place::Embedded => {
                Tally::refuse(ctxt, &field.attrs, "an embedded struct");
                None
            }
            Place::Variant => {
                Tally::refuse(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        if let (Some(_), Some(_)) = (&tally, &derived) {
            ctxt.error(ident, "a field is made of other documents in one way");
        }
        let computed = match place {
            Place::Document => Computed::parse(ctxt, &field.attrs),
            Place::Embedded => {
                Computed::refuse(ctxt, &field.attrs, "an embedded struct");
                None
            }
            Place::Variant => {
                Computed::refuse(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        let indexes = named(&field.attrs, "index")
            .filter_map(|attr| ctxt.ok(parse_field(attr)))
            .collect();
        Some(Self {
            ident,
            vis: &field.vis,
            ty: &field.ty,
            docs: named(&field.attrs, "doc").collect(),
            stored,
            layout,
            indexes,
            default: serde.default,
            skip_if: serde.skip_if,
            native: serde.native,
            filled: What::said_by(&field.attrs).filter(|_| !matches!(place, Place::Variant)),
            is_right: ctxt.len() == errors_before,
            link,
            derived,
            tally,
            computed,
            rule: Rule::parse(&field.attrs),
        })
    }
}

/// Whether the type is one of the input's parameters.
fn is_parameter(input: &DeriveInput, ty: &Type) -> bool {
    let mut params = input.generics.type_params();
    matches!(ty, Type::Path(path) if params.any(|param| path.path.is_ident(&param.ident)))
}

/// Refuses a type parameter of which nothing is known, so that there is nothing to derive, and one of which serde asks for more than that.
pub(crate) fn refuse_parameters(ctxt: &mut Ctxt, input: &DeriveInput) -> bool {
    let fields: Vec<&syn::Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|one| &one.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let attrs = fields.iter().flat_map(|field| &field.attrs);
    let has_bound = attrs.chain(&input.attrs).any(|attr| {
        let list = attr.meta.require_list();
        let mut words = list.into_iter().flat_map(|list| list.tokens.clone());
        attr.path().is_ident("serde") && words.any(|word| word.to_string() == "bound")
    });
    let mut is_known = true;
    for param in input.generics.type_params() {
        let name = &param.ident;
        let is_embedded = param
            .bounds
            .to_token_stream()
            .to_string()
            .contains("Embedded");
        if param.bounds.is_empty() && input.generics.where_clause.is_none() {
            is_known = false;
            ctxt.error(
                param,
                format!(
                    "what is known of a `{name}`? Say `{name}: Embedded`, and `#[serde(bound = \"\")]`, as that brings along what serde \
                     asks for"
                ),
            );
        } else if is_embedded && !has_bound && fields.iter().any(|field| mentions(&field.ty, name))
        {
            ctxt.error(
                param,
                format!(
                    "serde asks for a `{name}: Deserialize` of its own beside `{name}: Embedded`, which is one already: add \
                     `#[serde(bound = \"\")]`"
                ),
            );
        }
    }
    is_known
}

/// The fields of a struct that has names for them.
pub(crate) fn named_fields<'a>(
    ctxt: &mut Ctxt,
    input: &'a DeriveInput,
    what: &str,
) -> Option<&'a Punctuated<syn::Field, Token![,]>> {
    match &input.data {
        Data::Struct(data) => {
            if let Fields::Named(fields) = &data.fields {
                return Some(&fields.named);
            }
            ctxt.error(
                &input.ident,
                format!(
                    "`{what}` needs a struct with named fields: they are the fields of the document"
                ),
            );
        }
        Data::Enum(data) => ctxt.error(
            data.enum_token,
            format!("`{what}` is for structs: put the enum into a field of one"),
        ),
        Data::Union(data) => ctxt.error(
            data.union_token,
            format!("`{what}` is not for unions: serde cannot store one"),
        ),
    }
    None
}

pub(crate) fn is_option(ty: &Type) -> bool {
    is_spelled(ty, &["Option"])
}

pub(crate) fn is_map(ty: &Type) -> bool {
    is_spelled(ty, &["BTreeMap", "HashMap"])
}

fn is_spelled(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// The name under which serde writes a field.
pub(crate) fn stored_name(ident: &Ident, field: &SerdeField, container: &SerdeContainer) -> String {
    let name = ident.unraw().to_string();
    match (&field.rename, container.rename_all) {
        (Some(rename), _) => rename.value(),
        (None, Some(rule)) => rule.field(&name),
        (None, None) => name,
    }
}

/// Two fields of one name would be written over each other.
pub(crate) fn refuse_same_names(ctxt: &mut Ctxt, fields: &[Field<'_>]) {
    for (i, field) in fields.iter().enumerate() {
        if fields[..i]
            .iter()
            .any(|before| before.stored == field.stored)
        {
            let message = match field.stored.as_str() {
                "_id" => "a document has one `_id`: leave one `rename` out".to_owned(),
                stored => format!("another field is stored as `{stored}` already"),
            };
            ctxt.error(field.ident, message);
        }
    }
}

pub(crate) fn refuse_name(stored: &str) -> Option<String> {
    let reason = if stored.is_empty() {
        "a stored field has a name"
    } else if stored.contains('.') {
        "a stored name has no dot: it would be read as a path"
    } else if stored.starts_with('$') {
        "a stored name does not begin with `$`: it would be read as an operator"
    } else if stored.contains('\0') {
        "a stored name has no null byte"
    } else if stored == "_odm" {
        "`_odm` holds the framework's bookkeeping"
    } else {
        return None;
    };
    Some(reason.to_owned())
}
