//! `#[derive(Document)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Ident, Type, ext::IdentExt, spanned::Spanned};

use super::{
    Code, Private, around, enum_document, fields::layout_function, hooks, id::SemanticId, quiet,
    shard_key::ShardKey, text, with_params,
};
use crate::{
    attr::{
        Before, Container, Direction, ID_HAS_AN_INDEX, IndexAttr, Key, Layout,
        OPTIONS_BEHIND_A_SEMICOLON, Options, What,
    },
    ctxt::Ctxt,
    model::{Field, Model, Place, fields_ident, is_map, is_option, refuse_parameters},
};

/// What `#[document(…)]` can say, beside `crate`.
const SETTINGS: &[&str] = &[
    "collection",
    "companion",
    "hooks",
    "id",
    "index",
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

/// Those by which the framework fills fields.
const FILLING: [&str; 5] = ["id", "scope", "soft_delete", "timestamps", "version"];

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    if let Data::Enum(data) = &input.data {
        return enum_document::expand(ctxt, input, data);
    }
    if !refuse_parameters(ctxt, input) {
        return Some(TokenStream::new());
    }
    let mut container = Container::parse(ctxt, input, "document", SETTINGS);
    let mut model = Model::parse(ctxt, input, "Document", Place::Document)?;
    model.fill(ctxt, &container.filled);
    if container.says("id") {
        model.fill_id(ctxt, container.id.as_ref());
    }
    if container.variant_of.is_some() {
        model.forget_filled();
    }
    refuse_unused_rules(ctxt, &model, &container);
    refuse_half_kept(ctxt, &mut container);
    let collection = collection(ctxt, input, &container);
    if model.serde.other_form {
        ctxt.error(
            &input.ident,
            "a document is stored as its own fields: serde's `transparent`, `from`, `try_from` and `into` cannot be honoured",
        );
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        ctxt.error(lifetime, "a document owns its values: it has no lifetimes");
        return None;
    }
    let id = find_id(ctxt, &model)?;
    if container.hooks.is_some() {
        model.refuse_rules_around_hooks(ctxt);
    }
    model.check_derived(ctxt);
    model.check_computed(ctxt);
    let indexes = right_indexes(ctxt, &model, &container.indexes);
    if container.variant_of.is_some() {
        refuse_sparse(ctxt, &model, &indexes);
        model.refuse_links(ctxt, "the model of a variant");
        model.refuse_derived(ctxt, "the model of a variant");
        model.refuse_tallies(ctxt, "the model of a variant");
        model.refuse_computed(ctxt, "the model of a variant");
        model.refuse_overflows(ctxt, "the model of a variant");
        for filled in &container.filled {
            if matches!(filled.what, What::Deleted | What::Scope) {
                ctxt.error(
                    &filled.field,
                    "the variants of an enum have no soft delete and no scope yet",
                );
            }
        }
        if let Some(version) = &container.schema_version {
            ctxt.error(
                version,
                "the variants of an enum have no schema versions yet",
            );
        }
    }
    let own = container.collection.as_ref().map(syn::LitStr::value);
    let is_sharded = !container.shard_key.is_empty();
    model.check_overflows(ctxt, &own.unwrap_or_default(), is_sharded);
    let private = Private::of(&container.krate);
    let upgrade = upgrade(ctxt, &container);
    let shard_key = ShardKey::parse(ctxt, &model, id, &container.shard_key);
    if let Some(shard_key) = &shard_key {
        shard_key.refuse_indexes(ctxt, declared(&model, &indexes));
        if let Some(of) = &container.variant_of {
            ctxt.error(
                of,
                "the variants of an enum have no shard key yet: leave `shard_key` out",
            );
        }
    }

    let semantic = container.id.as_ref();
    let semantic = semantic.map(|template| SemanticId::parse(ctxt, &model, id, template));
    if let (Some(_), Some(of)) = (&semantic, &container.variant_of) {
        ctxt.error(
            of,
            "the `_id` of an enum's variant cannot be made of fields yet: leave `id = …` out",
        );
    }

    let fields = fields(&model, id, shard_key.as_ref(), semantic.as_ref(), &private);
    let rules = container
        .validate
        .as_ref()
        .map(|said| model.document_rules(ctxt, said, &private));
    let said = container.hooks.as_ref();
    let run = said.map(|said| hooks::run(said, &private));
    let routing = match &shard_key {
        None => quote!(type Sharding = #private::Unsharded;),
        Some(shard_key) => shard_key.items(&private),
    };
    let computed = semantic.as_ref().map(|id| id.items(&private));
    let said_beside = Beside {
        compound: &indexes,
        upgrade,
        shard_key: shard_key.as_ref(),
        semantic: semantic.as_ref(),
        items: quote!(#rules #run #routing #computed),
        has_hooks: said.is_some(),
        computed_fields: ctxt.is_clean().then(|| model.computed(&private)).flatten(),
    };
    let implementation = implementation(&model, id, &collection, said_beside, &private);
    let is_drafted = model.is_drafted(container.companion.as_ref());
    let says_filled = FILLING.iter().any(|setting| container.says(setting));
    let insertable = model.insertable(is_drafted, says_filled, &private);
    let reach = model.reach(&private);
    let closed = model.closed_with(said, &private);
    let hooks = said.map(|said| model.has_hooks(said, &private));
    let checks = ctxt.is_clean().then(|| {
        let shard_key = shard_key.as_ref().map(|key| key.checks(&private));
        let links = model.link_checks(&private);
        let copies = model.copy_checks(is_drafted, "document", &private);
        let inside = model.inside_checks(&container, &private);
        let tallies = model.tally_checks(&private);
        let computed = model.computed_checks(&private);
        let overflows = model.overflow_checks(&private);
        quote!(#shard_key #links #inside #copies #tallies #computed #overflows)
    });
    let said = said_fields(&model, &container);
    // What the types say is told together with what the attributes say.
    let layout = model.layout_checks(&private);
    let id = (id.stored == "_id" && id.is_right && id.layout.is_plain())
        .then(|| id_check(&model, id, &private));
    let key = shard_key.as_ref().map(|key| key.struct_of_key(&private));
    let parts = semantic.as_ref().map(|id| id.functions(&private));
    let variant = container
        .variant_of
        .as_ref()
        .map(|of| variant_of(input, of, &private));
    let rest = quote!(#implementation #variant #reach #hooks #closed #said #layout #id #checks);
    let mut code = fields;
    code.extend([insertable, rest.into()]);
    code.extend([key, parts].into_iter().flatten().flatten());
    Some(code.finish(&private))
}

/// Code that leads from the names of fields in attributes to the fields, which nothing else does for these.
fn said_fields(model: &Model<'_>, container: &Container) -> Option<TokenStream> {
    let filled = container.filled.iter().map(|filled| &filled.field);
    let sharded = container.shard_key.iter().map(|sharded| &sharded.name);
    let sources = model.fields.iter().filter_map(|field| {
        let source = field.derived.as_ref()?.source()?;
        Some(&source.reference)
    });
    let mut said = filled.chain(sharded).chain(sources).peekable();
    said.peek()?;
    let fields = model.fields_ident();
    let (_, own, _) = model.input.generics.split_for_impl();
    let own = own.as_turbofish();
    let said = said.filter(|name| model.field_named(name).is_some());
    let said = said.map(|name| quote!(let _ = #fields #own::#name;));
    Some(layout_function(&model.input.generics, said))
}

/// Where the documents are.
enum Collection<'a> {
    Named(String),
    /// In that of an enum, as one of its variants.
    OfEnum(&'a Type),
}

fn collection<'a>(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    container: &'a Container,
) -> Collection<'a> {
    match (&container.collection, &container.variant_of) {
        (None, None) if !container.says_where(&input.attrs) => ctxt.error(
            &input.ident,
            "in which collection? Say `#[document(collection = \"…\")]`",
        ),
        (Some(collection), Some(_)) => ctxt.error(
            collection,
            "the documents of a variant are in the collection of its enum: leave `collection` out",
        ),
        _ => {}
    }
    match &container.variant_of {
        Some(of) => Collection::OfEnum(of),
        None => Collection::Named(
            container
                .collection
                .as_ref()
                .map_or_else(String::new, syn::LitStr::value),
        ),
    }
}

/// The generated claim that the struct is the model of a variant.
pub(crate) fn variant_of(input: &DeriveInput, of: &Type, private: &Private) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::VariantOf<#of> for #name #own #where_clause {}
    }
}

/// The indexes of a variant have a condition, and an index has either that or is sparse.
fn refuse_sparse(ctxt: &mut Ctxt, model: &Model<'_>, compound: &[&IndexAttr]) {
    for (_, options, at) in declared(model, compound) {
        if options.sparse {
            ctxt.error(
                at,
                format!(
                    "an index of one variant is partial by itself, and so not `sparse`: say `partial = |m| m.{at}().exists()`"
                ),
            );
        }
    }
}

/// The version of the model and what leads to it.
struct Upgrade<'c> {
    version: u32,
    function: &'c syn::Path,
}

fn upgrade<'c>(ctxt: &mut Ctxt, container: &'c Container) -> Option<Upgrade<'c>> {
    let version = container.schema_version.as_ref();
    let number = version.map(|version| version.base10_parse::<u32>().unwrap_or(0));
    match (version, number, &container.upgrade) {
        (Some(version), Some(0 | 1), _) => {
            ctxt.error(
                version,
                "the first version, 1, is that of documents without a mark: say `schema_version = 2` with an `upgrade` when the \
                 model changes",
            );
            None
        }
        (Some(_), Some(version), Some(function)) => Some(Upgrade { version, function }),
        (Some(version), ..) if !container.says("upgrade") => {
            ctxt.error(
                version,
                "what makes older documents documents of this version? Say `upgrade = function`, with \
                 `fn function(from: u32, document: &mut odm::bson::Document) -> odm::Result<()>`",
            );
            None
        }
        (None, _, Some(function)) if !container.says("schema_version") => {
            ctxt.error(
                function,
                "an upgrade leads to a version: say `schema_version = 2`, and count on with each change of the model",
            );
            None
        }
        _ => None,
    }
}

/// Rules that no write checks are worse than none.
fn refuse_unused_rules(ctxt: &mut Ctxt, model: &Model<'_>, container: &Container) {
    let ruled = model.fields.iter().find_map(|field| field.rule.first());
    if let (Some(rule), None) = (ruled, &container.validate) {
        let message = match &container.variant_of {
            None => "no write checks this rule: say `#[document(validate)]` as well",
            Some(_) => "no write checks this rule: the variants of an enum have no rules yet",
        };
        ctxt.error(rule, message);
    }
}

/// Hooks and rules where some writes would go around them.
fn refuse_half_kept(ctxt: &mut Ctxt, container: &mut Container) {
    if container.variant_of.is_some() {
        let said = [
            (&mut container.hooks, "hooks"),
            (&mut container.validate, "rules"),
        ];
        for (said, what) in said {
            // Whether there are any is no question any more.
            if let Some(said) = said.take() {
                ctxt.error(
                    said,
                    format!(
                        "the variants of an enum have no {what} yet: what is written through the enum would go around them"
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
            ctxt.error(
                &model.input.ident,
                "no field is stored as `_id`: give the id `#[serde(rename = \"_id\")]`",
            );
            return model.fields.first();
        }
        Some(id) => {
            if !id.layout.is_plain() {
                ctxt.error(id.ty, "the `_id` is one value: it has no layout");
            }
            if !id.indexes.is_empty() {
                ctxt.error(
                    id.ident,
                    "the `_id` always has a unique index: leave `#[index]` out",
                );
            }
        }
    }
    id
}

/// The indexes of the struct that can be; the rest is reported.
fn right_indexes<'c>(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    compound: &'c [IndexAttr],
) -> Vec<&'c IndexAttr> {
    let is_field = |name: &Ident| model.fields.iter().any(|field| field.ident == name);
    let mut right = Vec::new();
    for index in compound {
        match index.misplaced_option(is_field) {
            Some(option) => ctxt.error(option, OPTIONS_BEHIND_A_SEMICOLON),
            None => right.push(index),
        }
    }
    let mut before = Before::default();
    let mut refused: Vec<*const Options> = Vec::new();
    for (keys, options, at) in declared(model, &right) {
        let mut fields = model.fields.iter();
        let outlier = fields.find(|field| field.layout.overflow().is_some());
        if let (Some(seconds), Some(field)) = (&options.expire_after_seconds, outlier) {
            ctxt.error(
                seconds,
                format!(
                    "documents that expire leave the elements of `{}` that are outside of them behind: leave `expire_after_seconds` out, and \
                     delete them by `delete_many`",
                    field.ident
                ),
            );
        }
        before.refuse_same(ctxt, &keys, options, at);
        refuse_keys(ctxt, model, &keys);
        if options.unique && !refuse_unique(ctxt, model, &keys, options) {
            refused.push(options);
        }
    }
    // The compiler reports nothing more about refused indexes.
    let overflows = |key: &Key| {
        let field = key.path.first().and_then(|first| model.field_named(first));
        field.is_some_and(|field| field.layout.overflow().is_some())
    };
    right.retain(|index| {
        let is_refused = refused
            .iter()
            .any(|other| std::ptr::eq(*other, &index.options));
        !is_refused && !index.keys.iter().any(overflows)
    });
    right
}

/// Keys that no index has side by side.
fn refuse_keys(ctxt: &mut Ctxt, model: &Model<'_>, keys: &[Key]) {
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
            ctxt.error(first, ID_HAS_AN_INDEX);
        }
        if field.layout.overflow().is_some() {
            ctxt.error(
                first,
                "an index of an array that overflows would have the elements in the document alone: leave it out",
            );
        }
        if matches!(
            field.layout,
            Layout::EmbedMany(_) | Layout::ReferenceMany(_)
        ) {
            match array {
                Some(other) if other != first => ctxt.error(
                    first,
                    format!(
                        "`{first}` is an array, and so is `{other}`: MongoDB has no index over two arrays of a document; declare two"
                    ),
                ),
                _ => array = Some(first),
            }
        }
    }
}

/// Refuses unique keys that documents would share by mistake. Returns false for such an index.
fn refuse_unique(ctxt: &mut Ctxt, model: &Model<'_>, keys: &[Key], options: &Options) -> bool {
    let errors = ctxt.len();
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
            refuse_second_empty(ctxt, field, key, is_alone, options);
        } else if is_option(field.ty) && !is_alone {
            refuse_second_without(ctxt, model, field, (keys, key), options);
        }
        if key.path.len() > 1 {
            continue;
        }
        let filled = match field.filled {
            Some(What::Copy) if field.follows() => "a copy",
            Some(What::Tally) => "made of other documents",
            Some(What::Inverse) => "the inverse of a link",
            _ if is_map(field.ty) => {
                ctxt.error(
                    name,
                    format!("`{name}` is a map, which is compared as a whole: put what is unique into a field of its own"),
                );
                continue;
            }
            _ if is_option(field.ty) && is_alone => {
                refuse_second_none(ctxt, field, options);
                continue;
            }
            _ => continue,
        };
        ctxt.error(
            name,
            format!("`{name}` is {filled}, and writes of others would fail where it comes to be the same twice: leave `unique` out"),
        );
    }
    ctxt.len() == errors
}

/// None is a value for an index, unless it is not stored.
fn refuse_second_none(ctxt: &mut Ctxt, field: &Field<'_>, options: &Options) {
    if options.partial.is_some() || (options.sparse && field.skip_if.is_some()) {
        return;
    }
    let name = field.ident;
    let Some(is_there) = is_there(field) else {
        ctxt.error(
            name,
            "none is stored as null, so the second one would be a duplicate: say `#[index(unique, sparse)]`, and do not store it, \
             `#[serde(default, skip_serializing_if = \"Option::is_none\")]`",
        );
        return;
    };
    ctxt.error(
        name,
        format!("none is stored as null, so the second one would be a duplicate: let the index be of what is there, `#[index(unique, partial = |m| m.{name}(){is_there})]`"),
    );
}

/// The condition that an option has a value, for types with a least value.
fn is_there(field: &Field<'_>) -> Option<String> {
    let inside = text(field.ty);
    let inside = inside.trim_start_matches("Option<").trim_end_matches('>');
    Some(match inside {
        "String" => ".gt(\"\")".to_owned(),
        "i32" | "i64" => format!(".gte({inside}::MIN)"),
        "DateTime" => ".gte(DateTime::MIN)".to_owned(),
        _ => return None,
    })
}

/// Refuses a part of a unique key that may be none: the second document without it is a duplicate.
fn refuse_second_without(
    ctxt: &mut Ctxt,
    model: &Model<'_>,
    field: &Field<'_>,
    (keys, key): (&[Key], &Key),
    options: &Options,
) {
    if options.partial.is_some() {
        return;
    }
    let name = field.ident;
    let path: Vec<_> = key.path.iter().map(|step| format!("{step}()")).collect();
    let path = path.join(".");
    let remedy = match (is_there(field), key.path.len()) {
        (Some(is_there), 1) => format!("`partial = |m| m.{path}{is_there}`"),
        (None, 1) => format!(
            "`partial = |m| m.{path}.exists()` with `#[serde(default, skip_serializing_if = \"Option::is_none\")]` on the field"
        ),
        _ => format!("such as `partial = |m| m.{path}.gt(\"\")`"),
    };
    let (alike, otherwise) = match keys.len() {
        1 => ("", String::new()),
        _ => {
            let others = keys.iter().filter(|other| other.path.len() == 1);
            let mut others = others.filter_map(|other| model.field_named(other.path.first()?));
            let always = others.find(|other| !is_option(other.ty));
            let otherwise = always.map(|always| {
                format!(
                    "; to forbid the second document, use a condition that holds for every document, `partial = |m| m.{}().exists()`",
                    always.ident
                )
            });
            (
                " and with the same other fields",
                otherwise.unwrap_or_default(),
            )
        }
    };
    let message = format!(
        "a second document without `{name}`{alike} would be a duplicate: limit the index to documents with a value, {remedy}{otherwise}"
    );
    ctxt.error(name_in(key, name), message);
}

/// Refuses a unique key over an array: an index has one entry for an empty array, as for null.
fn refuse_second_empty(
    ctxt: &mut Ctxt,
    field: &Field<'_>,
    key: &Key,
    is_alone: bool,
    options: &Options,
) {
    if options.partial.is_some() || (is_alone && options.sparse && field.skip_if.is_some()) {
        return;
    }
    let name = field.ident;
    let inside = key.path.iter().skip(1);
    let inside: Vec<_> = inside.map(|step| format!("{step}().")).collect();
    let inside = inside.concat();
    let message = format!(
        "a second document with an empty `{name}` would be a duplicate: limit the index to arrays with elements, \
         `partial = |m| m.{name}().at(0).{inside}exists()`"
    );
    ctxt.error(name_in(key, name), message);
}

/// The token of a field in an index declaration.
fn name_in<'k>(key: &'k Key, field: &'k Ident) -> &'k Ident {
    key.path.first().unwrap_or(field)
}

/// All declared indexes, those of fields first, each with the name to report errors at.
fn declared<'m>(
    model: &'m Model<'_>,
    compound: &'m [&IndexAttr],
) -> impl Iterator<Item = (Vec<Key>, &'m Options, &'m Ident)> {
    let of_fields = model.fields.iter().flat_map(|field| {
        let keys = move |options: &Options| vec![Key::of_field(field.ident, options)];
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

/// The generated check that the type of the `_id` can be one.
fn id_check(model: &Model<'_>, id: &Field<'_>, private: &Private) -> TokenStream {
    let (name, ty) = (&model.input.ident, id.ty);
    let (impl_generics, own, where_clause) = model.input.generics.split_for_impl();
    let check = quote_spanned!(ty.span()=> <#ty as #private::Identifies<#name #own>>::check());
    quote! {
        const _: () = {
            fn id #impl_generics () #where_clause { #check }
        };
    }
}

/// The field tree.
fn fields(
    model: &Model<'_>,
    id: &Field<'_>,
    shard_key: Option<&ShardKey<'_, '_>>,
    semantic: Option<&SemanticId<'_, '_>>,
    private: &Private,
) -> Code {
    let (inside, private) = (private, &private.outside());
    let name = &model.input.ident;
    let (_, names) = with_params(&model.input.generics, &quote!(), &quote!());
    let accessors = model.fields.iter().map(|field| {
        let role = if std::ptr::eq(field, id) {
            quote!(#private::role::Id)
        } else if field.computed.is_some() {
            quote!(#private::role::Computed)
        } else if let Some(role) = field.derived_role(private) {
            role
        } else if field.tally.is_some() {
            quote!(#private::role::Tallied)
        } else if field.filled == Some(What::Inverse) {
            quote!(#private::role::Inverse)
        } else if field.filled.is_some() {
            quote!(#private::role::Filled)
        } else if shard_key.is_some_and(|key| key.has(field)) {
            quote!(#private::role::ShardKey)
        } else if semantic.is_some_and(|id| id.has(field)) {
            quote!(#private::role::IdPart)
        } else {
            quote!(#private::role::Own)
        };
        field.accessor(
            private,
            &quote!(self.path),
            [&quote!(#name #names), &role, &quote!(#private::shape::One)],
        )
    });
    root_tree(model.input, quote!(#(#accessors)*), inside)
}

/// The field tree of a document with these accessors, which are beside it.
pub(super) fn root_tree(input: &DeriveInput, accessors: TokenStream, private: &Private) -> Code {
    let (name, vis, ident) = (&input.ident, &input.vis, fields_ident(input));
    let (decl, names) = with_params(&input.generics, &quote!(), &quote!());
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let used = input
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
    let (quiet, outside) = (quiet(), private.outside());
    let types = quote! {
        #[doc = #doc]
        #quiet
        #vis struct #ident #decl #where_clause {
            path: #outside::Path,
            of: ::core::marker::PhantomData<fn() -> (#(#used,)*)>,
        }

        #[automatically_derived]
        #quiet
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
    Code { types, rest }
}

/// What a model says beside its fields.
struct Beside<'m, 'a> {
    compound: &'m [&'m IndexAttr],
    upgrade: Option<Upgrade<'m>>,
    shard_key: Option<&'m ShardKey<'m, 'a>>,
    semantic: Option<&'m SemanticId<'m, 'a>>,
    /// Further items of the implementation.
    items: TokenStream,
    has_hooks: bool,
    /// Those that are computed, as data.
    computed_fields: Option<TokenStream>,
}

fn implementation(
    model: &Model<'_>,
    id: &Field<'_>,
    collection: &Collection<'_>,
    said_beside: Beside<'_, '_>,
    private: &Private,
) -> TokenStream {
    let Beside {
        compound,
        upgrade,
        shard_key,
        semantic,
        items,
        has_hooks,
        computed_fields,
    } = said_beside;
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
        .rewrites(private)
        .map(|is_so| quote!(rewrites: #is_so,));
    let rounds = model.rounds(private).map(|is_so| quote!(rounds: #is_so,));
    let check_bounds = model.validation(private).map(|checks| {
        quote! {
            fn check_bounds_of(&self, place: &#private::Checked<'_>) -> #private::Result<()> {
                #checks
            }
        }
    });
    let kept = [
        (quote!(version), What::Version),
        (quote!(updated), What::Updated),
        (quote!(soft_delete), What::Deleted),
    ];
    let kept = kept.into_iter().filter_map(|(said, what)| {
        let stored = model.stored_name_of(what)?;
        Some(quote!(#said: #private::Some(#stored),))
    });
    let scope = model.scope().map(|scope| {
        let (ty, stored) = (scope.ty, &scope.stored);
        quote! {
            scope: #private::Some(#private::ScopeField {
                stored: #stored,
                type_id: || ::core::any::TypeId::of::<#ty>(),
            }),
        }
    });
    let take_filled = around(&model.take_filled(), |take| {
        quote! {
            fn take_filled(&mut self, from: Self) {
                #take
            }
        }
    });
    let links = model.links_of_model(has_hooks, private);
    let look_for_links = around(&model.look_for_links(true, private), |look| {
        quote! {
            fn links(found: &mut #private::LinksWalk) {
                #look
            }
        }
    });
    let copies = model.copies(private).map(|copies| quote!(copies: #copies,));
    let computed = computed_fields.map(|fields| quote!(computed: #fields,));
    let tallies = model.tallies_of_model(private);
    let overflows = model.overflows_of_model(private);
    let look_outside = model.look_outside(&quote!(value), &quote!(raw));
    let refuse_partial = model.refuse_partial(private).map(|refuse| {
        quote! {
            fn refuse_partial(&self) -> #private::Result<()> {
                #refuse
                #private::Ok(())
            }
        }
    });
    let keep_inside = model.keep_inside().map(|keep| {
        quote! {
            fn keep_inside(&mut self, raw: &#private::RawDocument) {
                #keep
            }
        }
    });
    let from_stored = around(&look_outside, |look| {
        quote! {
            fn from_stored(raw: &#private::RawDocument) -> #private::Result<Self> {
                let mut value: Self = #private::as_one(raw)?;
                #look
                #private::Ok(value)
            }
        }
    });
    let variants = model.look_for_variants(private);
    let filled = model.fields.iter().filter(|field| field.filled.is_some());
    let filled = filled.map(|field| field.stored.to_token_stream());
    let filled = around(&separated(filled), |stored| quote!(filled: &[#stored],));
    let indexes =
        declared(model, compound).map(|(keys, options, _)| index(&keys, options, true, private));
    let mark = upgrade
        .as_ref()
        .map(|_| quote!(#private::index_of_versions()));
    let indexes = indexes.chain(mark);
    let upgrade = upgrade.map(|Upgrade { version, function }| {
        quote_spanned!(function.span()=> schema_version: #version, upgrade: #private::Some(#function),)
    });
    let indexes = separated(indexes);
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
    let shard_key = shard_key.map(ShardKey::of_model);
    let semantic = semantic.map(SemanticId::of_model);
    let (listed, collection, tag) = match collection {
        Collection::Named(name) => (quote!(Self), quote!(#name), None),
        Collection::OfEnum(of) => {
            let place = quote_spanned!(of.span()=> <#of as #private::HasVariant<Self>>);
            (
                quote!(#of),
                quote!(#place::COLLECTION),
                Some(quote!(tag: #private::Some(#place::TAG),)),
            )
        }
    };
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Document for #name #names #where_clause {
            type Listed = #listed;
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
                #scope
                #upgrade
                #links
                #copies
                #tallies
                #overflows
                #computed
                #tag
                #shard_key
                #semantic
                ..#private::Model::UNKNOWN
            };
            #items
            fn id(&self) -> &#id_ty {
                &self.#id_ident
            }
            #check_bounds
            #indexes
            fn variants(&self, found: &mut #private::Variants) {
                #variants
            }
            #look_for_links
            #take_filled
            #from_stored
            #refuse_partial
            #keep_inside
        }
    }
}

/// With commas between them.
fn separated(all: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!(#(#all),*)
}

/// `are_known`: the derive has checked the types of the model's own fields. The compiler checks embedded fields.
pub(super) fn index(
    keys: &[Key],
    options: &Options,
    are_known: bool,
    private: &Private,
) -> TokenStream {
    let ttl = options.expire_after_seconds.is_some();
    let is_unique = options.unique && options.partial.is_none();
    let keys = keys.iter().map(|key| {
        let direction = match key.direction {
            Direction::Ascending => quote!(Ascending),
            Direction::Descending => quote!(Descending),
        };
        let steps = key.path.iter().map(|step| quote_spanned!(step.span()=> .#step()));
        let call = match is_unique && (!are_known || key.path.len() > 1) {
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
        set.push(quote!(index.sparse = true;));
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
    if let Some(name) = &options.name {
        set.push(quote!(index.name = ::std::string::String::from(#name);));
    }
    quote! {{
        let mut index = #private::Index::new(::std::vec![#(#keys),*]);
        #(#set)*
        index
    }}
}
