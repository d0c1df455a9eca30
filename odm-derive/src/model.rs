//! Parsing and checks of the input of `Document` and `Embedded`.

use quote::{ToTokens, format_ident};
use syn::{
    Attribute, Data, DeriveInput, Fields, Ident, LitStr, Token, Type, Visibility, ext::IdentExt,
    punctuated::Punctuated,
};

use crate::{
    attr::{
        ComputedAttr, DerivedValue, FieldRules, IndexAttr, IndexOptions, Layout, LinkAttr,
        ManagedField, ManagedKind, ONE_DERIVED_VALUE, ROLLUP_ATTRIBUTES, RollupAttr, SequenceAttr,
        SerdeContainer, SerdeDefault, SerdeField, attrs_named, parse_field_index,
    },
    ctxt::Ctxt,
    expand::mentions_ident,
};

/// A struct with named fields.
pub(crate) struct Model<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) fields: Vec<Field<'a>>,
    /// The fields that are not stored: serde's `skip`.
    pub(crate) skipped: Vec<&'a Ident>,
    pub(crate) serde: SerdeContainer,
}

/// A stored field.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) ty: &'a Type,
    pub(crate) docs: Vec<&'a Attribute>,
    /// All attributes.
    pub(crate) attrs: &'a [Attribute],
    /// Whether serde's `rename` names the field.
    pub(crate) has_own_name: bool,
    /// The stored name.
    pub(crate) stored: String,
    pub(crate) layout: Layout,
    pub(crate) indexes: Vec<IndexOptions>,
    /// Whether an index ignores the case of the text.
    pub(crate) is_caseless: bool,
    /// serde's `default`: stored documents may lack the field.
    pub(crate) default: Option<SerdeDefault>,
    /// serde's `skip_serializing_if`.
    pub(crate) skip_if: Option<LitStr>,
    /// serde's `with = "odm::native"`.
    pub(crate) native: bool,
    /// Whether serde reads the value with its type, or with the type's `Default` if the field is missing.
    pub(crate) is_read_plainly: bool,
    /// The kind of managed value, if the framework manages the field.
    pub(crate) managed: Option<ManagedKind>,
    /// The link settings of a reference.
    pub(crate) link: Option<LinkAttr>,
    /// The copy or snapshot settings.
    pub(crate) derived: Option<DerivedValue>,
    /// The rollup settings.
    pub(crate) rollup: Option<RollupAttr>,
    /// The formula of a computed field.
    pub(crate) computed: Option<ComputedAttr>,
    /// The sequence of an assigned number.
    pub(crate) sequence: Option<SequenceAttr>,
    /// The validation rules.
    pub(crate) rules: FieldRules<'a>,
    /// Whether all attributes of the field are valid.
    pub(crate) is_valid: bool,
}

/// The name of a variant in error messages.
pub(crate) const VARIANT: &str = "a variant of an enum";

impl<'a> Model<'a> {
    /// Parses a struct with named fields. `derive_name` is for error messages.
    ///
    /// `place` decides which attributes are allowed: links, for example, only in documents.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        input: &'a DeriveInput,
        derive_name: &str,
        place: FieldPlace,
    ) -> Option<Self> {
        let serde = SerdeContainer::parse(ctxt, &input.attrs);
        let mut skipped = Vec::new();
        let mut fields = Vec::new();
        for field in named_fields(ctxt, input, derive_name)? {
            match Field::parse(ctxt, field, &serde, place) {
                Some(field) => fields.push(field),
                None => skipped.extend(&field.ident),
            }
        }
        ensure_distinct_names(ctxt, &fields);
        Some(Self {
            input,
            fields,
            skipped,
            serde,
        })
    }

    /// Marks the managed fields that the settings of the struct name, and reports missing fields.
    pub(crate) fn mark_managed(&mut self, ctxt: &mut Ctxt, managed_fields: &[ManagedField]) {
        for ManagedField { kind, field: name } in managed_fields {
            let Some(field) = self.fields.iter_mut().find(|field| field.ident == name) else {
                ctxt.error_at(
                    name,
                    format!("there is no field `{name}`: {}", kind.declaration_hint()),
                );
                continue;
            };
            if field.managed.replace(*kind).is_some() {
                ctxt.error_at(
                    name,
                    format!("`{name}` is a managed field already: remove one of the settings"),
                );
            }
            let is_single_value = match kind {
                ManagedKind::Scope => matches!(field.layout, Layout::Plain | Layout::Reference),
                _ => field.layout.is_plain(),
            };
            if field.stored == "_id" || !is_single_value {
                ctxt.error_at(name, kind.declaration_hint());
            }
            if *kind == ManagedKind::Scope && is_parameter(self.input, field.ty) {
                ctxt.error_at(
                    field.ty,
                    "the type of a scope cannot be a type parameter of the model: use a concrete type",
                );
            }
        }
    }

    /// Clears managed kinds that a field's own attributes declare, for models that do not support these attributes.
    pub(crate) fn clear_field_managed(&mut self) {
        for field in &mut self.fields {
            let field_kinds = [
                ManagedKind::Copy,
                ManagedKind::Computed,
                ManagedKind::Inverse,
                ManagedKind::Rollup,
                ManagedKind::Sequence,
            ];
            field.managed = field.managed.filter(|kind| !field_kinds.contains(kind));
        }
    }

    /// Marks the texts with an index that ignores case.
    pub(crate) fn mark_caseless(&mut self, indexes: &[IndexAttr]) {
        let keys = indexes.iter().flat_map(|index| &index.keys);
        for key in keys.filter(|key| key.ignore_case) {
            let mut fields = self.fields.iter_mut();
            if let Some(field) = fields.find(|field| key.path.first() == Some(field.ident)) {
                field.is_caseless = true;
            }
        }
    }

    /// Returns the field with this Rust name.
    pub(crate) fn field_named(&self, name: &Ident) -> Option<&Field<'a>> {
        self.fields.iter().find(|field| field.ident == name)
    }

    /// Returns whether the model has managed fields.
    pub(crate) fn has_managed_fields(&self) -> bool {
        self.fields.iter().any(|field| field.managed.is_some())
    }

    /// Returns the name of the generated field tree.
    pub(crate) fn fields_ident(&self) -> Ident {
        fields_ident(self.input)
    }
}

/// Returns the name of the field tree that is generated for a type.
pub(crate) fn fields_ident(input: &DeriveInput) -> Ident {
    format_ident!("{}Fields", input.ident.unraw())
}

/// The kind of type that contains a field.
#[derive(Clone, Copy)]
pub(crate) enum FieldPlace {
    Document,
    Embedded,
    Variant,
}

impl<'a> Field<'a> {
    /// Parses a named field. Returns `None` for a field that serde skips.
    pub(crate) fn parse(
        ctxt: &mut Ctxt,
        field: &'a syn::Field,
        container: &SerdeContainer,
        place: FieldPlace,
    ) -> Option<Self> {
        let ident = field.ident.as_ref()?;
        let errors_before = ctxt.error_count();
        let serde = SerdeField::parse(ctxt, &field.attrs);
        if serde.skip {
            for attr in [
                "embed",
                "reference",
                "index",
                "denormalize",
                "snapshot",
                "computed",
                "sequence",
                "tree",
            ]
            .iter()
            .chain(&ROLLUP_ATTRIBUTES)
            .flat_map(|name| attrs_named(&field.attrs, name))
            {
                ctxt.error_at(
                    attr,
                    "serde skips this field, so it is not stored: remove the attribute",
                );
            }
            return None;
        }
        let stored = stored_name(ident, &serde, container);
        if let Some(reason) = stored_name_error(&stored) {
            match &serde.rename {
                Some(rename) => ctxt.error_at(rename, reason),
                None => ctxt.error_at(ident, reason),
            }
        }
        if let Some(module) = &serde.with
            && serde.default.is_none()
            && is_option(&field.ty)
        {
            let module = module.to_token_stream().to_string().replace(' ', "");
            ctxt.error_at(
                &field.ty,
                format!("serde rejects a document without this field: add `default`, `#[serde(default, with = \"{module}\")]`"),
            );
        }
        if let Some(predicate) = &serde.skip_if
            && serde.default.is_none()
            && !is_option(&field.ty)
            // An alias of `Option`.
            && !predicate.value().ends_with("Option::is_none")
        {
            ctxt.error_at(
                predicate,
                format!(
                    "a skipped value is missing when the document is read: add `default`, `#[serde(default, skip_serializing_if \
                     = \"{}\")]`",
                    predicate.value()
                ),
            );
        }
        let layout = Layout::parse(ctxt, &field.attrs, &field.ty);
        let layout = match place {
            FieldPlace::Document => layout,
            FieldPlace::Embedded => layout.without_overflow(ctxt, &field.ty, "an embedded struct"),
            FieldPlace::Variant => layout.without_overflow(ctxt, &field.ty, VARIANT),
        };
        if serde.default == Some(SerdeDefault::Function) && !layout.is_plain() {
            ctxt.error_at(
                ident,
                "filters do not see the value that a function returns for a missing array, map or struct: remove the function, \
                 `#[serde(default)]`, or upgrade older documents by a `schema_version` with an `upgrade`",
            );
        }
        let link = match place {
            FieldPlace::Document => LinkAttr::parse(ctxt, &field.attrs, &field.ty, &layout),
            FieldPlace::Embedded => {
                LinkAttr::parse_embedded(ctxt, &field.attrs, &field.ty, &layout)
            }
            FieldPlace::Variant => {
                LinkAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        if attrs_named(&field.attrs, "latest").next().is_some() && !is_spelled(&field.ty, &["Vec"])
        {
            ctxt.error_at(
                &field.ty,
                "`#[latest(…)]` needs a `Vec` of a struct with `#[embedded(of = …)]`",
            );
        }
        let mut derived = DerivedValue::parse(ctxt, &field.attrs, ident);
        if !matches!(place, FieldPlace::Document) {
            for attr in attrs_named(&field.attrs, "tree") {
                ctxt.error_at(
                    attr,
                    "a tree consists of documents: move the field to the document",
                );
                derived = None;
            }
        }
        let rollup = match place {
            FieldPlace::Document => RollupAttr::parse(ctxt, &field.attrs),
            FieldPlace::Embedded => {
                RollupAttr::ensure_absent(ctxt, &field.attrs, "an embedded struct");
                None
            }
            FieldPlace::Variant => {
                RollupAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        if let (Some(_), Some(_)) = (&rollup, &derived) {
            ctxt.error_at(ident, ONE_DERIVED_VALUE);
        }
        let computed = match place {
            FieldPlace::Document => ComputedAttr::parse(ctxt, &field.attrs),
            FieldPlace::Embedded => {
                ComputedAttr::ensure_absent(ctxt, &field.attrs, "an embedded struct");
                None
            }
            FieldPlace::Variant => {
                ComputedAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        let sequence = match place {
            FieldPlace::Document => SequenceAttr::parse(ctxt, &field.attrs),
            FieldPlace::Embedded => {
                SequenceAttr::ensure_absent(ctxt, &field.attrs, "an embedded struct");
                None
            }
            FieldPlace::Variant => {
                SequenceAttr::ensure_absent(ctxt, &field.attrs, VARIANT);
                None
            }
        };
        let indexes: Vec<_> = attrs_named(&field.attrs, "index")
            .filter_map(|attr| ctxt.ok_or_report(parse_field_index(attr)))
            .collect();
        Some(Self {
            ident,
            vis: &field.vis,
            ty: &field.ty,
            docs: attrs_named(&field.attrs, "doc").collect(),
            attrs: &field.attrs,
            has_own_name: serde.rename.is_some(),
            stored,
            layout,
            is_caseless: indexes.iter().any(|options| options.ignore_case.is_some()),
            indexes,
            default: serde.default,
            skip_if: serde.skip_if,
            native: serde.native,
            is_read_plainly: serde.with.is_none() && serde.default != Some(SerdeDefault::Function),
            managed: ManagedKind::from_attrs(&field.attrs)
                .filter(|_| !matches!(place, FieldPlace::Variant)),
            is_valid: ctxt.error_count() == errors_before,
            link,
            derived,
            rollup,
            computed,
            sequence,
            rules: FieldRules::parse(&field.attrs),
        })
    }
}

/// Returns whether the type is a type parameter of the input.
fn is_parameter(input: &DeriveInput, ty: &Type) -> bool {
    let mut params = input.generics.type_params();
    matches!(ty, Type::Path(path) if params.any(|param| path.path.is_ident(&param.ident)))
}

/// Reports type parameters without bounds, and type parameters that get a conflicting bound from serde. Returns false if a
/// parameter has no bound, so that code generation is impossible.
pub(crate) fn ensure_parameter_bounds(ctxt: &mut Ctxt, input: &DeriveInput) -> bool {
    let fields: Vec<&syn::Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| &variant.fields)
            .collect(),
        Data::Union(_) => Vec::new(),
    };
    let attrs = fields.iter().flat_map(|field| &field.attrs);
    let has_bound = attrs.chain(&input.attrs).any(|attr| {
        let list = attr.meta.require_list();
        let mut tokens = list.into_iter().flat_map(|list| list.tokens.clone());
        attr.path().is_ident("serde") && tokens.any(|token| token.to_string() == "bound")
    });
    let mut have_bounds = true;
    for param in input.generics.type_params() {
        let name = &param.ident;
        let is_embedded = param
            .bounds
            .to_token_stream()
            .to_string()
            .contains("Embedded");
        if param.bounds.is_empty() && input.generics.where_clause.is_none() {
            have_bounds = false;
            ctxt.error_at(
                param,
                format!(
                    "missing bound of the type parameter: write `{name}: Embedded`, and `#[serde(bound = \"\")]`, because `Embedded` already requires serde's traits"
                ),
            );
        } else if is_embedded
            && !has_bound
            && fields.iter().any(|field| mentions_ident(&field.ty, name))
        {
            ctxt.error_at(
                param,
                format!(
                    "serde adds the bound `{name}: Deserialize`, which `{name}: Embedded` requires already: add `#[serde(bound = \"\")]`"
                ),
            );
        }
    }
    have_bounds
}

/// Returns the fields of a struct with named fields, or reports an error.
pub(crate) fn named_fields<'a>(
    ctxt: &mut Ctxt,
    input: &'a DeriveInput,
    derive_name: &str,
) -> Option<&'a Punctuated<syn::Field, Token![,]>> {
    match &input.data {
        Data::Struct(data) => {
            if let Fields::Named(fields) = &data.fields {
                return Some(&fields.named);
            }
            ctxt.error_at(
                &input.ident,
                format!(
                    "`{derive_name}` needs a struct with named fields, which become the fields of the document"
                ),
            );
        }
        Data::Enum(data) => ctxt.error_at(
            data.enum_token,
            format!("`{derive_name}` supports only structs: put the enum into a field of a struct"),
        ),
        Data::Union(data) => ctxt.error_at(
            data.union_token,
            format!("`{derive_name}` does not support unions, because serde cannot store them"),
        ),
    }
    None
}

/// Returns whether the type is written as an `Option`.
pub(crate) fn is_option(ty: &Type) -> bool {
    is_spelled(ty, &["Option"])
}

/// Returns whether the type is written as a map.
pub(crate) fn is_map(ty: &Type) -> bool {
    is_spelled(ty, &["BTreeMap", "HashMap"])
}

/// Returns whether the last segment of the type's path is one of the names.
fn is_spelled(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// Returns the stored name of a field.
pub(crate) fn stored_name(ident: &Ident, field: &SerdeField, container: &SerdeContainer) -> String {
    let name = ident.unraw().to_string();
    match (&field.rename, container.rename_all) {
        (Some(rename), _) => rename.value(),
        (None, Some(rule)) => rule.rename_field(&name),
        (None, None) => name,
    }
}

/// Reports fields with equal stored names: serde would write one value over the other.
pub(crate) fn ensure_distinct_names(ctxt: &mut Ctxt, fields: &[Field<'_>]) {
    for (i, field) in fields.iter().enumerate() {
        if fields[..i]
            .iter()
            .any(|earlier| earlier.stored == field.stored)
        {
            let message = match field.stored.as_str() {
                "_id" => "a document can have only one `_id`: remove one `rename`".to_owned(),
                stored => {
                    format!(
                        "another field is stored as `{stored}` already: rename one of the fields"
                    )
                }
            };
            ctxt.error_at(field.ident, message);
        }
    }
}

/// Returns why a stored name is invalid.
pub(crate) fn stored_name_error(stored: &str) -> Option<String> {
    let reason = if stored.is_empty() {
        "a stored name cannot be empty: choose another name"
    } else if stored.contains('.') {
        "a stored name cannot contain a dot, which separates the steps of a path: choose another name"
    } else if stored.starts_with('$') {
        "a stored name cannot begin with `$`, which marks an operator: choose another name"
    } else if stored.contains('\0') {
        "a stored name cannot contain a null byte: choose another name"
    } else if stored == "_odm" {
        "the name `_odm` is reserved for the framework's metadata: choose another name"
    } else {
        return None;
    };
    Some(reason.to_owned())
}
