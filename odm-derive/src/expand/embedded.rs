//! `#[derive(Embedded)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, Fields, ext::IdentExt, spanned::Spanned};

use super::{
    GeneratedCode, PrivatePath, allow_lints, enumeration,
    insertable::{DENY_WITHOUT_INSERT_STRUCT, DeclaredWith},
    where_bounds, with_params, wrap_nonempty,
};
use crate::{
    attr::{ContainerAttrs, LinkAttr, SerdeContainer},
    ctxt::Ctxt,
    model::{FieldPlace, Model, ensure_parameter_bounds, fields_ident},
};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = ContainerAttrs::parse(
        ctxt,
        input,
        "embedded",
        &[
            "deny_unknown_fields",
            "insert_derive",
            "insert_struct",
            "of",
            "validate",
        ],
    );
    let private = PrivatePath::of_crate(&container.krate);
    if !ensure_parameter_bounds(ctxt, input) {
        return Some(TokenStream::new());
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        ctxt.error_at(
            lifetime,
            "an embedded value must be owned: remove the lifetime",
        );
        return None;
    }
    let is_struct =
        matches!(&input.data, Data::Struct(data) if matches!(data.fields, Fields::Named(_)));
    if let (Some(setting), false) = (&container.validate, is_struct) {
        ctxt.error_at(
            setting,
            "`validate` needs a struct with named fields: remove it here, as `#[garde(dive)]` on a field checks the value as a \
             whole",
        );
    }
    let insert_derive = container.insert_derive.first();
    let struct_settings: [(_, &dyn ToTokens); 4] = [
        ("deny_unknown_fields", &container.deny_unknown_fields),
        ("insert_derive", &insert_derive),
        ("insert_struct", &container.insert_struct),
        ("of", &container.of),
    ];
    for (name, setting) in struct_settings {
        if !is_struct && !setting.to_token_stream().is_empty() {
            ctxt.error_at(
                setting,
                format!("`{name}` needs a struct with named fields: remove it here"),
            );
        }
    }
    let code = match &input.data {
        Data::Enum(data) => Some(enumeration::expand(ctxt, input, data, &private)),
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let inner = fields.unnamed.first().map(|field| &field.ty);
                Some(expand_value(ctxt, input, inner, &private).into())
            }
            // Parse the attributes without reporting errors: `Model::parse` reads the attributes again.
            Fields::Named(_)
                if SerdeContainer::parse(&mut Ctxt::default(), &input.attrs).other_form =>
            {
                Some(expand_value(ctxt, input, None, &private).into())
            }
            _ => expand_struct(ctxt, input, &container, &private),
        },
        Data::Union(_) => expand_struct(ctxt, input, &container, &private),
    };
    Some(code?.into_tokens(&private))
}

/// Expands a struct with named fields.
fn expand_struct(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    container: &ContainerAttrs,
    private: &PrivatePath,
) -> Option<GeneratedCode> {
    let model = Model::parse(ctxt, input, "Embedded", FieldPlace::Embedded)?;
    for field in &model.fields {
        if !field.indexes.is_empty() {
            ctxt.error_at(
                field.ident,
                "an embedded struct cannot have an index: declare the index on the document, `#[document(index(outer.inner))]`",
            );
        }
        if field.stored == "_id" {
            ctxt.error_at(
                field.ident,
                "only a document can have an `_id`: rename the field of the embedded struct",
            );
        }
    }
    let tree = field_tree(&model, private);
    model.check_derived(ctxt);
    let is_drafted = model.needs_draft(container.insert_struct.as_ref());
    let rules = container
        .validate
        .as_ref()
        .map(|setting| model.embedded_rules(ctxt, setting, private));
    let implementation = stored_impl(&model, rules, is_drafted, private);
    if let (Some(setting), false) = (&container.deny_unknown_fields, is_drafted) {
        ctxt.error_at(setting, DENY_WITHOUT_INSERT_STRUCT);
    }
    if let (Some(derive), false) = (container.insert_derive.first(), is_drafted) {
        ctxt.error_at(
            derive,
            "the struct has no managed fields and is inserted as itself, without an insert struct: derive this on the struct",
        );
    }
    let insert_struct = is_drafted
        .then(|| model.embedded_insert_struct(DeclaredWith::of_insert_struct(container), private));
    let checks = ctxt.is_clean().then(|| {
        let embedded = model.embedded_delete_rule_checks(private);
        let copies = model.copy_checks(is_drafted, "embedded", private);
        let excerpt = container
            .of
            .as_ref()
            .map(|model_type| model.excerpt_impl(model_type, private));
        quote!(#embedded #copies #excerpt)
    });
    let layout = model.layout_checks(private);
    let mut code = tree;
    code.extend([quote!(#implementation #layout #checks).into()]);
    code.extend(insert_struct);
    Some(code)
}

fn field_tree(model: &Model<'_>, private: &PrivatePath) -> GeneratedCode {
    let (short_private, private) = (private, &private.full_path());
    let accessors = model.fields.iter().map(|field| {
        let role = field.derived_role(private);
        field.accessor_method(
            private,
            &quote!(#private::Place::path(&self.whole)),
            [
                &quote!(__M),
                &role.unwrap_or_else(|| quote!(__R)),
                &quote!(__S),
            ],
        )
    });
    place_tree(model.input, accessors, short_private)
}

/// Returns the field tree of a place that holds the input type, with these accessors.
pub(super) fn place_tree(
    input: &DeriveInput,
    accessors: impl Iterator<Item = TokenStream>,
    private: &PrivatePath,
) -> GeneratedCode {
    let (name, vis, ident) = (&input.ident, &input.vis, fields_ident(input));
    let scope = quote!(__M: 'static, __R: 'static, __S: 'static,);
    let scope_names = quote!(__M, __R, __S,);
    let (decl, names) = with_params(&input.generics, &scope, &scope_names);
    let (_, type_generics) = with_params(&input.generics, &quote!(), &quote!());
    let (_, _, where_clause) = input.generics.split_for_impl();
    let doc = format!("The fields of [`{}`] in a document.", name.unraw());
    let (lints, full_path) = (allow_lints(), private.full_path());
    let types = quote! {
        #[doc = #doc]
        #lints
        #vis struct #ident #decl #where_clause {
            whole: #full_path::Field<__M, #name #type_generics, __R, __S>,
        }

        #[automatically_derived]
        #lints
        impl #decl #ident #names #where_clause {
            #(#accessors)*
        }
    };
    let rest = quote! {
        #[automatically_derived]
        impl #decl #private::FromPath for #ident #names #where_clause {
            fn from_path(path: #private::Path) -> Self {
                Self { whole: #private::FromPath::from_path(path) }
            }
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #decl #private::Place for #ident #names #where_clause {
            type Scope = __M;
            type Value = #name #type_generics;
            type Role = __R;
            type Shape = __S;
            fn path(&self) -> #private::Path {
                #private::Place::path(&self.whole)
            }
        }

        #[automatically_derived]
        impl #decl #private::Deref for #ident #names #where_clause {
            type Target = #private::Field<__M, #name #type_generics, __R, __S>;
            fn deref(&self) -> &Self::Target {
                &self.whole
            }
        }
    };
    GeneratedCode { types, rest }
}

fn stored_impl(
    model: &Model<'_>,
    rules: Option<TokenStream>,
    is_drafted: bool,
    private: &PrivatePath,
) -> TokenStream {
    let input = model.input;
    let (name, ident) = (&input.ident, fields_ident(input));
    let (_, type_generics) = with_params(&input.generics, &quote!(), &quote!());
    let (_, names) = with_params(&input.generics, &quote!(), &quote!(__M, __R, __S,));
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let closed = model.closed_impl(private);
    let validate = model.validation_body(private).map(|checks| {
        quote! {
            fn validate(&self, place: &#private::CheckedPlace<'_>) -> #private::Result<()> {
                #checks
            }
        }
    });
    let rewrites = model
        .rewrites_expression(private)
        .map(|value| quote!(const HAS_SERDE_DEFAULTS: bool = #value;));
    let rounds = model
        .rounds_expression(private)
        .map(|value| quote!(const ROUNDS_VALUES: bool = #value;));
    let embedded_links = model
        .embedded_links(private)
        .map(|links| quote!(const LINKS: #private::EmbeddedLinks = #links;));
    let links_body = wrap_nonempty(&model.look_for_links(false, private), |body| {
        quote! {
            fn links(found: &mut #private::LinkCollector) {
                #body
            }
        }
    });
    let variants = wrap_nonempty(&model.look_for_variants(private), |body| {
        quote! {
            fn variants(&self, found: &mut #private::VariantMap) {
                #body
            }
        }
    });
    let copies = model
        .copies_expression(private)
        .map(|copies| quote!(const COPIES: &'static #private::TypeCopies = #copies;));
    let new = model.new_type(is_drafted);
    let names_stored = model.fields.iter().map(|field| &field.stored);
    let projection = whole_projection(input, private);
    let pairs = model.fields.iter().map(|field| {
        let (rust, stored) = (field.ident.unraw().to_string(), &field.stored);
        quote!((#rust, #stored))
    });
    let (_, tree) = with_params(
        &input.generics,
        &quote!(),
        &quote!(#name #type_generics, #private::role::Own, #private::shape::One,),
    );
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Stored for #name #type_generics #where_clause {
            type Kind = #private::kind::Struct;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #ident #names;
            type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
            type New = #new;
            #copies
            #rewrites
            #rounds
            #embedded_links
            #rules
            #links_body
            #validate
            #variants
            const NAMES: &'static [&'static str] = &[#(#names_stored),*];
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Embedded for #name #type_generics #where_clause {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Projected for #name #type_generics #where_clause {
            type Tree = #ident #tree;
            const NAMES: &'static [(&'static str, &'static str)] = &[#(#pairs),*];
        }

        #projection
        #closed
    }
}

/// Returns the `Projection` implementation of a stored type: the type is a projection of itself.
pub(super) fn whole_projection(input: &DeriveInput, private: &PrivatePath) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Projection for #name #type_generics #where_clause {
            type Of = Self;
            const FIELDS: #private::ProjectedFields = #private::ProjectedFields::Whole;
        }
    }
}

/// Expands an enum, or a newtype with the type `inner`, that is compared and set as one value.
pub(super) fn expand_value(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    inner: Option<&syn::Type>,
    private: &PrivatePath,
) -> TokenStream {
    SerdeContainer::parse(ctxt, &input.attrs);
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let (closed_decl, _) = with_params(
        &input.generics,
        &quote!(__Schema: #private::Schema,),
        &quote!(),
    );
    let newtype = inner.map(|inner| newtype_impls(input, inner, private));
    let unit_key = matches!(input.data, Data::Enum(_)).then(|| {
        quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #impl_generics #private::MapKey for #name #type_generics #where_clause {
                type Mapped<__E: #private::kind::Element> = __E::Mapped;
            }
        }
    });
    let inner_items = inner.map(|inner| {
        let links = links_of_newtype(inner, private);
        quote! {
            const LINKS: #private::EmbeddedLinks = #links.as_unreachable();
            fn variants(&self, found: &mut #private::VariantMap) {
                use #private::Opaque as _;
                #private::NewtypeContent(&self.0).variants(found);
            }
        }
    });
    // A save must write the enum as a whole; a comparison field by field would mix variants.
    let variants = matches!(input.data, Data::Enum(_)).then(|| {
        quote! {
            fn variants(&self, found: &mut #private::VariantMap) {
                found.whole();
            }
        }
    });
    let checks = inner
        .filter(|_| input.generics.params.is_empty())
        .map(|inner| {
            let links = links_of_newtype(inner, private);
            quote_spanned!(inner.span()=> const _: () = ::core::assert!(!#links.any, #NO_FIELDS);)
        });
    // A type that serde stores as another type has no stored fields.
    if let Data::Struct(data) = &input.data {
        for field in &data.fields {
            LinkAttr::ensure_absent(ctxt, &field.attrs, "a type that is stored as one value");
        }
    }
    let projection = whole_projection(input, private);
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Stored for #name #type_generics #where_clause {
            type Kind = #private::kind::Value;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #private::Field<__M, Self, __R, __S>;
            type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
            type New = Self;
            #variants
            #inner_items
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Embedded for #name #type_generics #where_clause {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #closed_decl #private::TargetsInSchema<__Schema> for #name #type_generics #where_clause {}

        #projection
        #newtype
        #unit_key
        #checks
    }
}

const NO_FIELDS: &str = "delete rules inside a newtype are not applied: use named fields, or remove `exists` and `on_delete` \
     from the struct";

/// Returns an expression with the delete rules inside a newtype, for any inner type.
fn links_of_newtype(inner: &syn::Type, private: &PrivatePath) -> TokenStream {
    quote!({
        use #private::Opaque as _;
        #private::NewtypeContent::<'static, #inner>::LINKS
    })
}

/// Returns the implementations of a newtype: the order of the inner type, and the use as an id and as the key of a map.
fn newtype_impls(input: &DeriveInput, inner: &syn::Type, private: &PrivatePath) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let (key_decl, _) = with_params(
        &input.generics,
        &quote!(__T: #private::Document<Id = #name #type_generics>,),
        &quote!(),
    );
    let bounds = where_bounds(&input.generics);
    quote! {
        // A bound with `for<'__a>` is checked only where the implementation is used.
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Ordered for #name #type_generics where #bounds for<'__a> #inner: #private::Ordered {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::MapKey for #name #type_generics where #bounds for<'__a> #inner: #private::MapKey {
            type Mapped<__E: #private::kind::Element> = <#inner as #private::MapKey>::Mapped<__E>;
            fn to_key(&self) -> #private::Result<#private::Cow<'_, str>> {
                #private::MapKey::to_key(&self.0)
            }
            fn from_key(text: &str) -> #private::Option<Self> {
                <#inner as #private::MapKey>::from_key(text).map(Self)
            }
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #key_decl #private::IntoKey<__T> for #name #type_generics #where_clause {
            type Knows = #private::IdAlone;
            fn into_key(self) -> #private::Key<__T> {
                #private::Key::of_id(self)
            }
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #key_decl #private::IntoKey<__T> for &#name #type_generics
        where
            #bounds
            for<'__a> #name #type_generics: ::core::clone::Clone,
        {
            type Knows = #private::IdAlone;
            fn into_key(self) -> #private::Key<__T> {
                #private::Key::of_id(::core::clone::Clone::clone(self))
            }
        }
    }
}
