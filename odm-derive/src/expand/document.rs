//! `#[derive(Document)]` of a struct.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints, enum_document,
    fields::layout_function,
    hooks,
    id::ComposedId,
    insertable::{DENY_WITHOUT_INSERT_STRUCT, DeclaredWith},
    shard_key::ShardKey,
    type_text, with_params, wrap_nonempty,
};
use crate::{
    attr::{
        ContainerAttrs, DeclaredIndexes, ID_HAS_AN_INDEX, IndexAttr, IndexKey, IndexOptions,
        KeyDirection, Layout, ManagedKind, OPTIONS_AFTER_SEMICOLON,
    },
    ctxt::Ctxt,
    model::{Field, FieldPlace, Model, ensure_parameter_bounds, fields_ident, is_map, is_option},
};

/// The settings of `#[document(…)]`, beside `crate`.
const DOCUMENT_SETTINGS: &[&str] = &[
    "collection",
    "deny_unknown_fields",
    "hooks",
    "id",
    "index",
    "insert_derive",
    "insert_struct",
    "projection",
    "schema_version",
    "scope",
    "shard_key",
    "soft_delete",
    "timestamps",
    "upgrade",
    "validate",
    "variant_of",
    "version",
];

/// The settings that declare managed fields.
const MANAGED_SETTINGS: [&str; 5] = ["id", "scope", "soft_delete", "timestamps", "version"];

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    if let Data::Enum(data) = &input.data {
        return enum_document::expand(ctxt, input, data);
    }
    if !ensure_parameter_bounds(ctxt, input) {
        return Some(TokenStream::new());
    }
    let mut container = ContainerAttrs::parse(ctxt, input, "document", DOCUMENT_SETTINGS);
    let mut model = Model::parse(ctxt, input, "Document", FieldPlace::Document)?;
    model.mark_managed(ctxt, &container.managed_fields);
    model.mark_caseless(&container.indexes);
    if container.has_setting("id") {
        model.mark_id(ctxt, container.id.as_ref(), container.auto_id.is_some());
    }
    if container.variant_of.is_some() {
        model.clear_field_managed();
    } else {
        // The first place: an index of the application with the same keys is reported at its declaration.
        let indexes = model.check_sequences(ctxt);
        let indexes = indexes.into_iter().chain(model.check_tree(ctxt));
        container.indexes.splice(..0, indexes.collect::<Vec<_>>());
    }
    ensure_rules_are_checked(ctxt, &model, &container);
    ensure_no_variant_hooks(ctxt, &mut container);
    let collection = find_collection(ctxt, input, &container);
    if model.serde.other_form {
        ctxt.error_at(
            &input.ident,
            "serde's `transparent`, `from`, `try_from` and `into` are not supported on a document, which must be stored as its \
             own fields",
        );
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        ctxt.error_at(
            lifetime,
            "a document must own its values: remove the lifetime",
        );
        return None;
    }
    let id = find_id(ctxt, &model)?;
    if container.hooks.is_some() {
        model.ensure_hooks_run(ctxt);
    }
    model.check_derived(ctxt);
    model.check_computed(ctxt);
    let indexes = valid_indexes(ctxt, &model, &container.indexes);
    if container.variant_of.is_some() {
        ensure_not_sparse(ctxt, &model, &indexes);
        model.ensure_no_links(ctxt, "the model of a variant");
        model.ensure_no_derived(ctxt, "the model of a variant");
        model.ensure_no_rollups(ctxt, "the model of a variant");
        model.ensure_no_computed(ctxt, "the model of a variant");
        model.ensure_no_sequences(ctxt, "the model of a variant");
        for field in model.fields.iter().filter(|field| field.is_caseless) {
            ctxt.error_at(
                field.ident,
                "the model of a variant cannot have an index that ignores case yet: remove `ignore_case`",
            );
        }
        model.ensure_no_overflows(ctxt, "the model of a variant");
        for filled in &container.managed_fields {
            if matches!(filled.kind, ManagedKind::Deleted | ManagedKind::Scope) {
                ctxt.error_at(
                    &filled.field,
                    "the variants of an enum cannot have a soft delete or a scope yet: remove the setting",
                );
            }
        }
        if let Some(version) = &container.schema_version {
            ctxt.error_at(
                version,
                "the variants of an enum cannot have schema versions yet: remove the setting",
            );
        }
    }
    let collection_name = container.collection.as_ref().map(syn::LitStr::value);
    let is_sharded = !container.shard_key.is_empty();
    model.check_overflows(ctxt, &collection_name.unwrap_or_default(), is_sharded);
    let private = PrivatePath::of_crate(&container.krate);
    let upgrade = find_upgrade(ctxt, &container);
    let shard_key = ShardKey::parse(ctxt, &model, id, &container.shard_key);
    if let Some(shard_key) = &shard_key {
        let stored = declared_indexes(&model, &indexes);
        let stored = stored.map(|(keys, options, at)| {
            let keys = stored_index(&model, keys, options).keys;
            (keys, options, at)
        });
        shard_key.ensure_indexes_allowed(ctxt, stored);
        if let Some(enum_type) = &container.variant_of {
            ctxt.error_at(
                enum_type,
                "the variants of an enum cannot have a shard key yet: remove `shard_key`",
            );
        }
    }

    let semantic = container.id.as_ref();
    let semantic = semantic.map(|template| ComposedId::parse(ctxt, &model, id, template));
    if let (Some(_), Some(enum_type)) = (&semantic, &container.variant_of) {
        ctxt.error_at(
            enum_type,
            "the `_id` of an enum's variant cannot be composed of fields yet: remove `id = …`",
        );
    }
    if let (Some(auto), Some(_)) = (&container.auto_id, &container.variant_of) {
        ctxt.error_at(
            auto,
            "the `_id` of an enum's variant cannot be generated yet: remove `id = auto`",
        );
    }

    let fields = field_tree(&model, id, shard_key.as_ref(), semantic.as_ref(), &private);
    let rules = container
        .validate
        .as_ref()
        .map(|setting| model.document_rules(ctxt, setting, &private));
    let hooks_setting = container.hooks.as_ref();
    let run = hooks_setting.map(|hooks_setting| hooks::hooks_item(hooks_setting, &private));
    let routing = match &shard_key {
        None => quote!(type Sharding = #private::Unsharded;),
        Some(shard_key) => shard_key.impl_items(&private),
    };
    let computed = semantic.as_ref().map(|id| id.impl_items(&private));
    let generated = container.auto_id.as_ref().map(|_| {
        quote!(
            const GENERATES_ID: bool = true;
        )
    });
    let impl_parts = ImplParts {
        compound: &indexes,
        upgrade,
        shard_key: shard_key.as_ref(),
        semantic: semantic.as_ref(),
        items: quote!(#rules #run #routing #computed #generated),
        has_hooks: hooks_setting.is_some(),
        soft_delete_cascades: container.soft_delete_cascades,
        computed_fields: ctxt
            .is_clean()
            .then(|| model.computed_expression(&private))
            .flatten(),
    };
    let implementation = document_impl(&model, id, &collection, impl_parts, &private);
    let is_drafted = model.needs_draft(container.insert_struct.as_ref());
    let says_filled = MANAGED_SETTINGS
        .iter()
        .any(|setting| container.has_setting(setting));
    let declared = DeclaredWith::of_insert_struct(&container);
    let insertable = model.insertable_impl(is_drafted, says_filled, declared, &private);
    if insertable.types.is_empty() {
        if let Some(derive) = container.insert_derive.first() {
            ctxt.error_at(
                derive,
                "the model has no managed fields and is inserted as itself, without an insert struct: derive this on the model",
            );
        }
        if let Some(setting) = &container.deny_unknown_fields {
            ctxt.error_at(setting, DENY_WITHOUT_INSERT_STRUCT);
        }
    }
    let omissions = model.omission_structs(ctxt, &container.omissions, &container.krate);
    let scope_impls = model.scope_impls(&private);
    let closed = model.document_closed_impl(hooks_setting, &private);
    let hooks = hooks_setting.map(|hooks_setting| model.has_hooks_impl(hooks_setting, &private));
    let checks = ctxt.is_clean().then(|| {
        let shard_key = shard_key.as_ref().map(|key| key.type_checks(&private));
        let links = model.link_checks(&private);
        let copies = model.copy_checks(is_drafted, "document", &private);
        let embedded = model.delete_rule_checks(&container, &private);
        let rollups = model.rollup_checks(&private);
        let computed = model.computed_checks(&private);
        let overflows = model.overflow_checks(&private);
        quote!(#shard_key #links #embedded #copies #rollups #computed #overflows)
    });
    let tree = ctxt.is_clean().then(|| model.tree_impl(&private));
    let mentions = field_mentions(&model, &container);
    // Layout errors of types are reported together with errors in attributes.
    let layout = model.layout_checks(&private);
    let id = (id.stored == "_id" && id.is_valid && id.layout.is_plain())
        .then(|| id_check(&model, id, &private));
    let key = shard_key.as_ref().map(|key| key.key_struct(&private));
    let parts = semantic.as_ref().map(|id| id.id_functions(&private));
    let variant = container
        .variant_of
        .as_ref()
        .map(|enum_type| variant_of_impl(input, enum_type, &private));
    let rest = quote!(#implementation #variant #scope_impls #hooks #closed #tree #mentions #layout #id #checks);
    let mut code = fields;
    code.extend([insertable, rest.into()]);
    code.extend([key, parts].into_iter().flatten().flatten());
    let code = code.into_tokens(&private);
    Some(quote!(#code #omissions))
}

/// Returns code that refers to the fields named in attributes, so that an IDE links these names to the fields.
fn field_mentions(model: &Model<'_>, container: &ContainerAttrs) -> Option<TokenStream> {
    let filled = container.managed_fields.iter().map(|filled| &filled.field);
    let sharded = container.shard_key.iter().map(|sharded| &sharded.name);
    let sources = model.fields.iter().filter_map(|field| {
        let source = field.derived.as_ref()?.source()?;
        Some(&source.reference)
    });
    let sequences = model.fields.iter();
    let sequences = sequences.filter_map(|field| field.sequence.as_ref()?.per.as_ref());
    let mut names = filled
        .chain(sharded)
        .chain(sources)
        .chain(sequences)
        .peekable();
    names.peek()?;
    let fields = model.fields_ident();
    let (_, type_generics, _) = model.input.generics.split_for_impl();
    let type_generics = type_generics.as_turbofish();
    let names = names.filter(|name| model.field_named(name).is_some());
    let names = names.map(|name| quote!(let _ = #fields #type_generics::#name;));
    Some(layout_function(&model.input.generics, names))
}

/// The collection of a model.
enum CollectionSource<'a> {
    Named(String),
    /// The collection of an enum, for the model of a variant.
    OfEnum(&'a Type),
}

fn find_collection<'a>(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    container: &'a ContainerAttrs,
) -> CollectionSource<'a> {
    match (&container.collection, &container.variant_of) {
        (None, None) if !container.has_collection_setting(&input.attrs) => ctxt.error_at(
            &input.ident,
            "missing collection: write `#[document(collection = \"…\")]`",
        ),
        (Some(collection), Some(_)) => ctxt.error_at(
            collection,
            "the documents of a variant are stored in the collection of the enum: remove `collection`",
        ),
        _ => {}
    }
    match &container.variant_of {
        Some(enum_type) => CollectionSource::OfEnum(enum_type),
        None => CollectionSource::Named(
            container
                .collection
                .as_ref()
                .map_or_else(String::new, syn::LitStr::value),
        ),
    }
}

/// Returns the `VariantOf` implementation of a variant's model.
pub(crate) fn variant_of_impl(
    input: &DeriveInput,
    enum_type: &Type,
    private: &PrivatePath,
) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::VariantOf<#enum_type> for #name #type_generics #where_clause {}
    }
}

/// Reports sparse indexes of a variant. Such an index already has a partial filter, and MongoDB rejects an index that is sparse
/// and partial.
fn ensure_not_sparse(ctxt: &mut Ctxt, model: &Model<'_>, compound: &[&IndexAttr]) {
    for (_, options, at) in declared_indexes(model, compound) {
        if options.sparse {
            ctxt.error_at(
                at,
                format!(
                    "an index of one variant is always partial, so it cannot be `sparse`: write `partial = |m| \
                     m.{at}().exists()`"
                ),
            );
        }
    }
}

/// The schema version of a model and its upgrade function.
struct UpgradeAttr<'c> {
    version: u32,
    function: &'c syn::Path,
}

fn find_upgrade<'c>(ctxt: &mut Ctxt, container: &'c ContainerAttrs) -> Option<UpgradeAttr<'c>> {
    let version = container.schema_version.as_ref();
    let number = version.map(|version| version.base10_parse::<u32>().unwrap_or(0));
    match (version, number, &container.upgrade) {
        (Some(version), Some(0 | 1), _) => {
            ctxt.error_at(
                version,
                "version 1 is the version of documents without a stored version: write `schema_version = 2` with an `upgrade` \
                 when the model changes",
            );
            None
        }
        (Some(_), Some(version), Some(function)) => Some(UpgradeAttr { version, function }),
        (Some(version), ..) if !container.has_setting("upgrade") => {
            ctxt.error_at(
                version,
                "missing upgrade of older documents: write `upgrade = function`, with `fn function(from: u32, document: &mut \
                 odm::bson::Document) -> odm::Result<()>`",
            );
            None
        }
        (None, _, Some(function)) if !container.has_setting("schema_version") => {
            ctxt.error_at(
                function,
                "missing version: write `schema_version = 2`, and increment it with each change of the model",
            );
            None
        }
        _ => None,
    }
}

/// Reports rules that no write checks, because a developer would rely on the rules.
fn ensure_rules_are_checked(ctxt: &mut Ctxt, model: &Model<'_>, container: &ContainerAttrs) {
    let ruled = model
        .fields
        .iter()
        .find_map(|field| field.rules.first_attr());
    if let (Some(rule), None) = (ruled, &container.validate) {
        let message = match &container.variant_of {
            None => "no write checks this rule: write `#[document(validate)]` as well",
            Some(_) => "no write checks this rule: the variants of an enum cannot have rules yet",
        };
        ctxt.error_at(rule, message);
    }
}

/// Reports hooks and rules of a variant's model, because writes through the enum would bypass both.
fn ensure_no_variant_hooks(ctxt: &mut Ctxt, container: &mut ContainerAttrs) {
    if container.variant_of.is_some() {
        let settings = [
            (&mut container.hooks, "hooks"),
            (&mut container.validate, "rules"),
        ];
        for (setting, trait_name) in settings {
            // Clear the setting, so that later checks do not report missing implementations.
            if let Some(path) = setting.take() {
                ctxt.error_at(
                    path,
                    format!(
                        "the variants of an enum cannot have {trait_name} yet, because writes through the enum would bypass them"
                    ),
                );
            }
        }
    }
}

fn find_id<'m, 'a>(ctxt: &mut Ctxt, model: &'m Model<'a>) -> Option<&'m Field<'a>> {
    let id = model.fields.iter().find(|field| field.stored == "_id");
    match id {
        None => {
            ctxt.error_at(
                &model.input.ident,
                "no field is stored as `_id`: add `#[serde(rename = \"_id\")]` to the id",
            );
            return model.fields.first();
        }
        Some(id) => {
            if !id.layout.is_plain() {
                ctxt.error_at(
                    id.ty,
                    "the `_id` must be a single value: remove `#[embed]` or `#[reference]`",
                );
            }
            if !id.indexes.is_empty() {
                ctxt.error_at(
                    id.ident,
                    "the `_id` always has a unique index: remove `#[index]`",
                );
            }
        }
    }
    id
}

/// Returns the valid indexes of the struct, and reports the invalid indexes.
fn valid_indexes<'c>(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    compound: &'c [IndexAttr],
) -> Vec<&'c IndexAttr> {
    let is_field = |name: &Ident| model.fields.iter().any(|field| field.ident == name);
    let mut right = Vec::new();
    for index in compound {
        match index.misplaced_option(is_field) {
            Some(option) => ctxt.error_at(option, OPTIONS_AFTER_SEMICOLON),
            None => right.push(index),
        }
    }
    let mut before = DeclaredIndexes::default();
    let mut rejected: Vec<*const IndexOptions> = Vec::new();
    for (keys, options, at) in declared_indexes(model, &right) {
        let mut fields = model.fields.iter();
        let overflow_field = fields.find(|field| field.layout.overflow().is_some());
        if let (Some(seconds), Some(field)) = (&options.expire_after_seconds, overflow_field) {
            ctxt.error_at(
                seconds,
                format!(
                    "an expiry would not delete the spilled elements of `{}`: remove `expire_after_seconds`, and delete by \
                     `delete_many`",
                    field.ident
                ),
            );
        }
        ensure_scope_setting(ctxt, model, &keys, options);
        let stored = stored_index(model, keys.clone(), options);
        before.ensure_distinct(ctxt, &stored.keys, options, at);
        ensure_indexable_keys(ctxt, model, &keys);
        ensure_caseless_keys(ctxt, model, &keys);
        if options.unique && !ensure_unique_index(ctxt, model, &keys, options) {
            rejected.push(options);
        }
    }
    // Remove rejected indexes, so that the compiler does not report type errors about the same index.
    let overflows = |key: &IndexKey| {
        let field = key.path.first().and_then(|first| model.field_named(first));
        field.is_some_and(|field| field.layout.overflow().is_some())
    };
    right.retain(|index| {
        let is_refused = rejected
            .iter()
            .any(|other| std::ptr::eq(*other, &index.options));
        !is_refused && !index.keys.iter().any(overflows)
    });
    right
}

/// Reports `all_scopes` without effect, and sparse indexes that the scope would make complete.
fn ensure_scope_setting(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    keys: &[IndexKey],
    options: &IndexOptions,
) {
    let scope = model.scope_field();
    let has_scope = |scope: &Field<'_>| keys.iter().any(|key| key.path == [scope.ident.clone()]);
    if let Some(setting) = &options.all_scopes {
        if scope.is_none() {
            ctxt.error_at(
                setting,
                "`all_scopes` is for an index of a model with a `scope`: remove it",
            );
        } else if scope.is_some_and(has_scope) {
            ctxt.error_at(
                setting,
                "the index has the scope already: remove the scope or `all_scopes`",
            );
        }
    }
    if options.sparse
        && keys.len() > 1
        && stored_index(model, keys.to_vec(), options).begins_with_scope
        && let Some(name) = keys.first().and_then(|key| key.path.first())
    {
        ctxt.error_at(
            name,
            format!(
                "the scope is added to the index, and every document has a scope, so the index cannot be `sparse`: write \
                 `partial = |m| m.{name}().exists()`"
            ),
        );
    }
}

/// Reports texts whose caseless form updates of the framework would not maintain.
fn ensure_caseless_keys(ctxt: &mut Ctxt, model: &Model<'_>, keys: &[IndexKey]) {
    for name in keys
        .iter()
        .filter(|key| key.ignore_case)
        .flat_map(|key| &key.path)
    {
        let field = model.field_named(name);
        if field.is_some_and(|field| field.managed.is_some() || field.stored == "_id") {
            ctxt.error_at(
                name,
                format!("an index can ignore the case only of a text that updates set: move `ignore_case` from `{name}` to such a field"),
            );
        }
    }
}

/// Reports keys that MongoDB cannot index together, and indexes that add nothing.
fn ensure_indexable_keys(ctxt: &mut Ctxt, model: &Model<'_>, keys: &[IndexKey]) {
    let mut array: Option<&Ident> = None;
    for key in keys {
        let Some(first) = key.path.first() else {
            continue;
        };
        let Some(field) = model.field_named(first) else {
            continue;
        };
        if field.stored == "_id"
            && keys.len() == 1
            && key.path.len() == 1
            && field.indexes.is_empty()
        {
            ctxt.error_at(first, ID_HAS_AN_INDEX);
        }
        if field.layout.overflow().is_some() {
            ctxt.error_at(
                first,
                "an overflow array cannot have an index, because the index would lack the spilled elements: remove it",
            );
        }
        if matches!(
            field.layout,
            Layout::EmbedMany(_) | Layout::ReferenceMany(_)
        ) {
            match array {
                Some(other) if other != first => ctxt.error_at(
                    first,
                    format!(
                        "`{first}` is an array, and so is `{other}`: MongoDB cannot index two arrays of a document together; \
                         declare two indexes"
                    ),
                ),
                _ => array = Some(first),
            }
        }
    }
}

/// Reports unique keys that documents would share by mistake. Returns false for such an index.
fn ensure_unique_index(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    keys: &[IndexKey],
    options: &IndexOptions,
) -> bool {
    let errors = ctxt.error_count();
    for key in keys {
        let Some(name) = key.path.first() else {
            continue;
        };
        let Some(field) = model.field_named(name) else {
            continue;
        };
        let is_array = matches!(
            field.layout,
            Layout::EmbedMany(_) | Layout::ReferenceMany(_)
        );
        let is_alone = keys.len() == 1 && key.path.len() == 1;
        if is_array {
            ensure_empty_is_excluded(ctxt, field, key, is_alone, options);
        } else if is_option(field.ty) && !is_alone {
            ensure_missing_is_excluded(ctxt, model, field, (keys, key), options);
        }
        if key.path.len() > 1 {
            continue;
        }
        let filled = match field.managed {
            Some(ManagedKind::Copy) if field.is_copy() => "a copy",
            Some(ManagedKind::Rollup) => "a rollup",
            Some(ManagedKind::Inverse) => "an inverse",
            _ if is_map(field.ty) => {
                ctxt.error_at(
                    name,
                    format!("`{name}` is a map, which is compared as a whole: move the unique value to a field of its own"),
                );
                continue;
            }
            _ if is_option(field.ty) && is_alone => {
                ensure_none_is_excluded(ctxt, field, options);
                continue;
            }
            _ => continue,
        };
        ctxt.error_at(
            name,
            format!("`{name}` is {filled}, so writes of other documents would fail if two values become equal: remove `unique`"),
        );
    }
    ctxt.error_count() == errors
}

/// Reports a unique index over an option: an index stores `None` as null, so a second `None` is a duplicate.
fn ensure_none_is_excluded(ctxt: &mut Ctxt, field: &Field<'_>, options: &IndexOptions) {
    // A document without a text has no caseless text.
    let ignores_case = options.ignore_case.is_some();
    let is_left_out = options.sparse && (field.skip_if.is_some() || ignores_case);
    if options.partial.is_some() || is_left_out {
        return;
    }
    let name = field.ident;
    if ignores_case {
        ctxt.error_at(
            name,
            "the second `None` would be a duplicate: leave out documents without a text, `#[index(unique, ignore_case, sparse)]`",
        );
        return;
    }
    let Some(presence) = presence_condition(field) else {
        ctxt.error_at(
            name,
            "`None` is stored as null, so the second `None` would be a duplicate: write `#[index(unique, sparse)]`, and do not \
             store it, `#[serde(default, skip_serializing_if = \"Option::is_none\")]`",
        );
        return;
    };
    ctxt.error_at(
        name,
        format!("`None` is stored as null, so the second `None` would be a duplicate: limit the index to documents with a value, \
             `#[index(unique, partial = |m| m.{name}(){presence})]`"),
    );
}

/// Returns the condition that an option has a value, for types with a least value.
fn presence_condition(field: &Field<'_>) -> Option<String> {
    let inner_type = type_text(field.ty);
    let inner_type = inner_type
        .trim_start_matches("Option<")
        .trim_end_matches('>');
    Some(match inner_type {
        "String" => ".gt(\"\")".to_owned(),
        "i32" | "i64" => format!(".gte({inner_type}::MIN)"),
        "DateTime" => ".gte(DateTime::MIN)".to_owned(),
        _ => return None,
    })
}

/// Reports an optional part of a unique key: a second document without the part is a duplicate.
fn ensure_missing_is_excluded(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    field: &Field<'_>,
    (keys, key): (&[IndexKey], &IndexKey),
    options: &IndexOptions,
) {
    if options.partial.is_some() {
        return;
    }
    let name = field.ident;
    let path: Vec<_> = key.path.iter().map(|step| format!("{step}()")).collect();
    let path = path.join(".");
    let remedy = match (presence_condition(field), key.path.len()) {
        (Some(presence), 1) => format!("`partial = |m| m.{path}{presence}`"),
        (None, 1) => format!(
            "`partial = |m| m.{path}.exists()` with `#[serde(default, skip_serializing_if = \"Option::is_none\")]` on the field"
        ),
        _ => format!("such as `partial = |m| m.{path}.gt(\"\")`"),
    };
    let (alternative_name, remedy_hint) = match keys.len() {
        1 => ("", String::new()),
        _ => {
            let fields = keys.iter().filter(|other| other.path.len() == 1);
            let mut fields = fields.filter_map(|other| model.field_named(other.path.first()?));
            let always = fields.find(|other| !is_option(other.ty));
            let remedy_hint = always.map(|always| {
                format!(
                    "; to forbid the second document, use a condition that holds for every document, `partial = |m| m.{}().exists()`",
                    always.ident
                )
            });
            (
                " and with the same other fields",
                remedy_hint.unwrap_or_default(),
            )
        }
    };
    let message = format!(
        "a second document without `{name}`{alternative_name} would be a duplicate: limit the index to documents with a value, {remedy}{remedy_hint}"
    );
    ctxt.error_at(field_token(key, name), message);
}

/// Reports a unique key over an array: an index stores an empty array as null, so a second empty array is a duplicate.
fn ensure_empty_is_excluded(
    ctxt: &mut Ctxt,
    field: &Field<'_>,
    key: &IndexKey,
    is_alone: bool,
    options: &IndexOptions,
) {
    if options.partial.is_some() || (is_alone && options.sparse && field.skip_if.is_some()) {
        return;
    }
    let name = field.ident;
    let steps = key.path.iter().skip(1);
    let steps: Vec<_> = steps.map(|step| format!("{step}().")).collect();
    let steps = steps.concat();
    let message = format!(
        "a second document with an empty `{name}` would be a duplicate: limit the index to arrays with elements, \
         `partial = |m| m.{name}().at(0).{steps}exists()`"
    );
    ctxt.error_at(field_token(key, name), message);
}

/// Returns the token of the field in an index declaration.
fn field_token<'k>(key: &'k IndexKey, field: &'k Ident) -> &'k Ident {
    key.path.first().unwrap_or(field)
}

/// Returns all declared indexes, indexes of fields first, each with the name at which errors are reported.
fn declared_indexes<'m>(
    model: &'m Model<'_>,
    compound: &'m [&IndexAttr],
) -> impl Iterator<Item = (Vec<IndexKey>, &'m IndexOptions, &'m Ident)> {
    let of_fields = model.fields.iter().flat_map(|field| {
        let keys = move |options: &IndexOptions| vec![IndexKey::of_field(field.ident, options)];
        field
            .indexes
            .iter()
            .map(move |options| (keys(options), options, field.ident))
    });
    let of_struct = compound.iter().filter_map(|index| {
        Some((
            index.keys.clone(),
            &index.options,
            index.keys.first()?.path.first()?,
        ))
    });
    of_fields.chain(of_struct)
}

/// A declared index as the database has it.
pub(super) struct StoredIndex<'o> {
    pub(super) keys: Vec<IndexKey>,
    pub(super) options: &'o IndexOptions,
    /// Whether the first key is the scope, which the declaration does not name.
    pub(super) begins_with_scope: bool,
}

/// Returns an index as the database has it. An index of a model with a scope begins with the scope, because every query of a session
/// has a condition on the scope. An index for expiry has a single key.
fn stored_index<'o>(
    model: &Model<'_>,
    mut keys: Vec<IndexKey>,
    options: &'o IndexOptions,
) -> StoredIndex<'o> {
    let is_complete = options.all_scopes.is_some() || options.expire_after_seconds.is_some();
    let scope = model
        .scope_field()
        .filter(|scope| !is_complete && keys.iter().all(|key| key.path != [scope.ident.clone()]));
    if let Some(scope) = scope {
        keys.insert(0, IndexKey::of_field(scope.ident, &IndexOptions::default()));
    }
    StoredIndex {
        keys,
        options,
        begins_with_scope: scope.is_some(),
    }
}

/// Returns the check that the type of the `_id` can be an id.
fn id_check(model: &Model<'_>, id: &Field<'_>, private: &PrivatePath) -> TokenStream {
    let (name, ty) = (&model.input.ident, id.ty);
    let (impl_generics, type_generics, where_clause) = model.input.generics.split_for_impl();
    let check = quote_spanned!(ty.span()=> <#ty as #private::Identifies<#name #type_generics>>::check_id_type());
    quote! {
        const _: () = {
            fn id #impl_generics () #where_clause { #check }
        };
    }
}

/// Returns the field tree.
fn field_tree(
    model: &Model<'_>,
    id: &Field<'_>,
    shard_key: Option<&ShardKey<'_, '_>>,
    semantic: Option<&ComposedId<'_, '_>>,
    private: &PrivatePath,
) -> GeneratedCode {
    let (short_private, private) = (private, &private.full_path());
    let name = &model.input.ident;
    let (_, names) = with_params(&model.input.generics, &quote!(), &quote!());
    let accessors = model.fields.iter().map(|field| {
        let role = if std::ptr::eq(field, id) {
            quote!(#private::role::Id)
        } else if field.computed.is_some() {
            quote!(#private::role::Computed)
        } else if let Some(role) = field.derived_role(private) {
            role
        } else if field.rollup.is_some() {
            quote!(#private::role::RolledUp)
        } else if field.managed == Some(ManagedKind::Inverse) {
            quote!(#private::role::Inverse)
        } else if field.sequence.is_some() {
            quote!(#private::role::SequenceNumber)
        } else if field.managed.is_some() {
            quote!(#private::role::Managed)
        } else if shard_key.is_some_and(|key| key.has_field(field)) {
            quote!(#private::role::ShardKeyField)
        } else if semantic.is_some_and(|id| id.has_part(field)) {
            quote!(#private::role::IdPartField)
        } else if model.is_sequence_key(field) {
            quote!(#private::role::SequenceKey)
        } else {
            quote!(#private::role::Own)
        };
        field.accessor_method(
            private,
            &quote!(self.path),
            [&quote!(#name #names), &role, &quote!(#private::shape::One)],
        )
    });
    root_tree(model.input, quote!(#(#accessors)*), short_private)
}

/// Returns the field tree of a document with these accessors.
pub(super) fn root_tree(
    input: &DeriveInput,
    accessors: TokenStream,
    private: &PrivatePath,
) -> GeneratedCode {
    let (name, vis, ident) = (&input.ident, &input.vis, fields_ident(input));
    let (decl, names) = with_params(&input.generics, &quote!(), &quote!());
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let used_params = input
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(&param.ident),
            _ => None,
        });
    let doc = format!(
        "The fields of [`{}`], for filters, sorts, updates and joins.",
        name.unraw()
    );
    let (lints, full_path) = (allow_lints(), private.full_path());
    let types = quote! {
        #[doc = #doc]
        #lints
        #vis struct #ident #decl #where_clause {
            path: #full_path::Path,
            of: ::core::marker::PhantomData<fn() -> (#(#used_params,)*)>,
        }

        #[automatically_derived]
        #lints
        impl #impl_generics #ident #names #where_clause {
            #accessors
        }
    };
    let rest = quote! {
        #[automatically_derived]
        impl #impl_generics #private::FromPath for #ident #names #where_clause {
            fn from_path(path: #private::Path) -> Self {
                Self { path, of: ::core::marker::PhantomData }
            }
        }
    };
    GeneratedCode { types, rest }
}

/// The parts of a `Document` implementation that do not follow from the fields.
struct ImplParts<'m, 'a> {
    compound: &'m [&'m IndexAttr],
    upgrade: Option<UpgradeAttr<'m>>,
    shard_key: Option<&'m ShardKey<'m, 'a>>,
    semantic: Option<&'m ComposedId<'m, 'a>>,
    /// Further items of the implementation.
    items: TokenStream,
    has_hooks: bool,
    soft_delete_cascades: bool,
    /// The computed fields, as an expression.
    computed_fields: Option<TokenStream>,
}

fn document_impl(
    model: &Model<'_>,
    id: &Field<'_>,
    collection: &CollectionSource<'_>,
    impl_parts: ImplParts<'_, '_>,
    private: &PrivatePath,
) -> TokenStream {
    let ImplParts {
        compound,
        upgrade,
        shard_key,
        semantic,
        items,
        has_hooks,
        soft_delete_cascades,
        computed_fields,
    } = impl_parts;
    let input = model.input;
    let (name, ident) = (&input.ident, model.fields_ident());
    let (id_ident, id_ty) = (id.ident, id.ty);
    let text = name.unraw().to_string();
    let (_, names) = with_params(&input.generics, &quote!(), &quote!());
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let stored = model.fields.iter().map(|field| {
        let (rust, stored) = (field.ident.unraw().to_string(), &field.stored);
        quote!((#rust, #stored))
    });
    let rewrites = model
        .rewrites_expression(private)
        .map(|value| quote!(has_serde_defaults: #value,));
    let rounds = model
        .rounds_expression(private)
        .map(|value| quote!(rounds_values: #value,));
    let check_bounds = model.validation_body(private).map(|checks| {
        quote! {
            fn check_bounds_of(&self, place: &#private::CheckedPlace<'_>) -> #private::Result<()> {
                #checks
            }
        }
    });
    let kept = [
        (quote!(version), ManagedKind::Version),
        (quote!(updated), ManagedKind::Updated),
        (quote!(soft_delete), ManagedKind::Deleted),
    ];
    let kept = kept.into_iter().filter_map(|(model_field, kind)| {
        let stored = model.stored_name_of(kind)?;
        Some(quote!(#model_field: #private::Some(#stored),))
    });
    let soft_delete_cascades = soft_delete_cascades.then(|| quote!(soft_delete_cascades: true,));
    let scope = model.scope_field().map(|scope| {
        let (ty, stored) = (scope.ty, &scope.stored);
        quote! {
            scope: #private::Some(#private::ScopeField {
                stored: #stored,
                type_id: || ::core::any::TypeId::of::<#ty>(),
            }),
        }
    });
    let take_filled = wrap_nonempty(&model.take_managed(), |take| {
        quote! {
            fn take_managed(&mut self, from: Self) {
                #take
            }
        }
    });
    let links = model.link_members(has_hooks, private);
    let links_body = wrap_nonempty(&model.look_for_links(true, private), |body| {
        quote! {
            fn links(found: &mut #private::LinkCollector) {
                #body
            }
        }
    });
    let copies = model
        .copies_expression(private)
        .map(|copies| quote!(copies: #copies,));
    let computed = computed_fields.map(|fields| quote!(computed: #fields,));
    let rollups = model.rollup_members(private);
    let sequences = model.sequence_members(private);
    let sequence_items = model.sequence_items(private);
    let tree = model.tree_member(private);
    let caseless = model.fields.iter().filter(|field| field.is_caseless);
    let caseless = caseless.map(|field| field.stored.to_token_stream());
    let caseless = wrap_nonempty(
        &comma_separated(caseless),
        |stored| quote!(caseless: &[#stored],),
    );
    let overflows = model.overflow_members(private);
    let spilled_counts = model.spilled_count_calls(&quote!(value), &quote!(raw));
    let ensure_complete = model.completeness_checks(private).map(|body| {
        quote! {
            fn ensure_complete(&self) -> #private::Result<()> {
                #body
                #private::Ok(())
            }
        }
    });
    let keep_resident = model.resident_truncation().map(|body| {
        quote! {
            fn keep_resident(&mut self, raw: &#private::RawDocument) {
                #body
            }
        }
    });
    let from_stored = wrap_nonempty(&spilled_counts, |body| {
        quote! {
            fn from_stored(raw: &#private::RawDocument) -> #private::Result<Self> {
                let mut value: Self = #private::decode_model(raw)?;
                #body
                #private::Ok(value)
            }
        }
    });
    let variants = model.look_for_variants(private);
    let filled = model.fields.iter().filter(|field| field.managed.is_some());
    let filled = filled.map(|field| field.stored.to_token_stream());
    let filled = wrap_nonempty(
        &comma_separated(filled),
        |stored| quote!(managed: &[#stored],),
    );
    let indexes = declared_indexes(model, compound)
        .map(|(keys, options, _)| stored_index(model, keys, options))
        .map(|index| index_expression(&index, true, private));
    let version_index = upgrade
        .as_ref()
        .map(|_| quote!(#private::index_of_versions()));
    let indexes = indexes.chain(version_index);
    let upgrade = upgrade.map(|UpgradeAttr { version, function }| {
        quote_spanned!(function.span()=> schema_version: #version, upgrade: #private::Some(#function),)
    });
    let indexes = comma_separated(indexes);
    let is_any = !indexes.is_empty() || model.may_have_links() || shard_key.is_some();
    let indexes = quote!(::std::vec![#indexes]);
    let indexes = match model.may_have_links() {
        true => quote!(#private::with_references(&Self::MODEL, #indexes)),
        false => indexes,
    };
    let indexes = match shard_key {
        None => indexes,
        Some(_) => quote!(#private::with_shard_key(&Self::MODEL, #indexes)),
    };
    let indexes = is_any.then(|| {
        quote! {
            fn indexes() -> #private::Vec<#private::Index> {
                #indexes
            }
        }
    });
    let shard_key = shard_key.map(ShardKey::model_members);
    let semantic = semantic.map(ComposedId::model_members);
    let (listed_model, collection, tag) = match collection {
        CollectionSource::Named(name) => (quote!(Self), quote!(#name), None),
        CollectionSource::OfEnum(enum_type) => {
            let place =
                quote_spanned!(enum_type.span()=> <#enum_type as #private::HasVariant<Self>>);
            (
                quote!(#enum_type),
                quote!(#place::COLLECTION),
                Some(quote!(tag: #private::Some(#place::TAG),)),
            )
        }
    };
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Document for #name #names #where_clause {
            type Listed = #listed_model;
            type Itself = Self;
            type Id = #id_ty;
            type Fields = #ident #names;
            const COLLECTION: &'static str = #collection;
            const MODEL: #private::Model = #private::Model {
                name: #text,
                collection: #collection,
                fields: &[#(#stored),*],
                #rewrites
                #rounds
                #filled
                #(#kept)*
                #soft_delete_cascades
                #scope
                #upgrade
                #links
                #copies
                #rollups
                #sequences
                #tree
                #overflows
                #computed
                #caseless
                #tag
                #shard_key
                #semantic
                ..#private::Model::UNKNOWN
            };
            #items
            #sequence_items
            fn id(&self) -> &#id_ty {
                &self.#id_ident
            }
            #check_bounds
            #indexes
            fn variants(&self, found: &mut #private::VariantMap) {
                #variants
            }
            #links_body
            #take_filled
            #from_stored
            #ensure_complete
            #keep_resident
        }
    }
}

/// Joins tokens with commas.
fn comma_separated(all: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!(#(#all),*)
}

/// Returns an expression that builds an index. `are_known` means that the derive has checked the types of the model's own fields.
/// The compiler checks the types of embedded fields.
pub(super) fn index_expression(
    index: &StoredIndex<'_>,
    are_known: bool,
    private: &PrivatePath,
) -> TokenStream {
    let StoredIndex {
        keys,
        options,
        begins_with_scope,
    } = index;
    let ttl = options.expire_after_seconds.is_some();
    let is_unique = options.unique && options.partial.is_none();
    let key_expressions = keys.iter().map(|key| {
        let direction = match key.direction {
            KeyDirection::Ascending => quote!(Ascending),
            KeyDirection::Descending => quote!(Descending),
        };
        let steps = key.path.iter().map(|step| quote_spanned!(step.span()=> .#step()));
        let call = match is_unique && (!are_known || key.path.len() > 1) {
            _ if key.ignore_case => quote!(caseless_key),
            _ if ttl => quote!(index_date),
            true => quote!(unique_key),
            false => quote!(index_key),
        };
        quote_spanned! {key.span()=>
            #private::#call(<Self as #private::Document>::fields() #(#steps)*, #private::Direction::#direction)
        }
    });
    let mut set = Vec::new();
    if options.unique {
        set.push(quote!(index.unique = true;));
    }
    if options.sparse {
        set.push(match begins_with_scope {
            true => quote!(#private::leave_out_missing(&mut index);),
            false => quote!(index.sparse = true;),
        });
    }
    if let Some(partial) = &options.partial {
        set.push(quote_spanned! {partial.span()=>
            index.partial = #private::index_partial::<Self, _>(#partial);
        });
    }
    if let Some(seconds) = &options.expire_after_seconds {
        set.push(
            quote!(index.expire_after = #private::Some(#private::Duration::from_secs(#seconds));),
        );
    }
    if is_unique && !options.sparse && keys.iter().any(|key| key.ignore_case) {
        set.push(quote!(#private::leave_out_missing_texts(&mut index);));
    }
    if let Some(name) = &options.name {
        set.push(quote!(index.name = ::std::string::String::from(#name);));
    }
    quote! {{
        let mut index = #private::Index::new(::std::vec![#(#key_expressions),*]);
        #(#set)*
        index
    }}
}
