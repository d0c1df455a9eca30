//! `#[derive(Embedded)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, Fields, ext::IdentExt, spanned::Spanned};

use super::{Code, Private, around, enumeration, quiet, where_bounds, with_params};
use crate::{
    attr::{Container, Link, SerdeContainer},
    ctxt::Ctxt,
    model::{Model, Place, fields_ident, refuse_parameters},
};

pub(crate) fn expand(ctxt: &mut Ctxt, input: &DeriveInput) -> Option<TokenStream> {
    let container = Container::parse(ctxt, input, "embedded", &["companion", "of", "validate"]);
    let private = Private::of(&container.krate);
    if !refuse_parameters(ctxt, input) {
        return Some(TokenStream::new());
    }
    if let Some(lifetime) = input.generics.lifetimes().next() {
        ctxt.error(lifetime, "an embedded value is owned: it has no lifetimes");
        return None;
    }
    let is_struct =
        matches!(&input.data, Data::Struct(data) if matches!(data.fields, Fields::Named(_)));
    if let (Some(said), false) = (&container.validate, is_struct) {
        ctxt.error(
            said,
            "only a struct with named fields has places that are checked one by one: a field with `#[garde(dive)]` checks this as a whole, \
             so leave `validate` out here",
        );
    }
    let of_fields: [(_, &dyn ToTokens); 2] =
        [("companion", &container.companion), ("of", &container.of)];
    for (setting, said) in of_fields {
        if !is_struct && !said.to_token_stream().is_empty() {
            ctxt.error(
                said,
                format!("only a struct with named fields has some of its own: leave `{setting}` out here"),
            );
        }
    }
    let code = match &input.data {
        Data::Enum(data) => Some(enumeration::expand(ctxt, input, data, &private)),
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let inner = fields.unnamed.first().map(|field| &field.ty);
                Some(value(ctxt, input, inner, &private).into())
            }
            // Told apart without reporting: `Model::parse` reads the attributes again.
            Fields::Named(_)
                if SerdeContainer::parse(&mut Ctxt::default(), &input.attrs).other_form =>
            {
                Some(value(ctxt, input, None, &private).into())
            }
            _ => structure(ctxt, input, &container, &private),
        },
        Data::Union(_) => structure(ctxt, input, &container, &private),
    };
    Some(code?.finish(&private))
}

/// A struct: its fields can be reached.
fn structure(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    container: &Container,
    private: &Private,
) -> Option<Code> {
    let model = Model::parse(ctxt, input, "Embedded", Place::Embedded)?;
    for field in &model.fields {
        if !field.indexes.is_empty() {
            ctxt.error(
                field.ident,
                "indexes belong to a collection: declare it on the document, `#[document(index(outer.inner))]`",
            );
        }
        if field.stored == "_id" {
            ctxt.error(
                field.ident,
                "only a document has an `_id`: an embedded struct has no place of its own",
            );
        }
    }
    let tree = tree(&model, private);
    model.check_derived(ctxt);
    let is_drafted = model.is_drafted(container.companion.as_ref());
    let rules = container
        .validate
        .as_ref()
        .map(|said| model.embedded_rules(ctxt, said, private));
    let implementation = implementation(&model, rules, is_drafted, private);
    let companion = is_drafted.then(|| model.embedded_companion(private));
    let checks = ctxt.is_clean().then(|| {
        let inside = model.inside_checks_of_embedded(private);
        let copies = model.copy_checks(is_drafted, "embedded", private);
        let excerpt = container
            .of
            .as_ref()
            .map(|of| model.excerpt_of(of, private));
        quote!(#inside #copies #excerpt)
    });
    let layout = model.layout_checks(private);
    let mut code = tree;
    code.extend([quote!(#implementation #layout #checks).into()]);
    code.extend(companion);
    Some(code)
}

fn tree(model: &Model<'_>, private: &Private) -> Code {
    let (inside, private) = (private, &private.outside());
    let accessors = model.fields.iter().map(|field| {
        let role = field.derived_role(private);
        field.accessor(
            private,
            &quote!(#private::Place::path(&self.whole)),
            [
                &quote!(__M),
                &role.unwrap_or_else(|| quote!(__R)),
                &quote!(__S),
            ],
        )
    });
    place_tree(model.input, accessors, inside)
}

/// The tree of a place that holds the input as a whole, and these accessors, which are beside it.
pub(super) fn place_tree(
    input: &DeriveInput,
    accessors: impl Iterator<Item = TokenStream>,
    private: &Private,
) -> Code {
    let (name, vis, ident) = (&input.ident, &input.vis, fields_ident(input));
    let scope = quote!(__M: 'static, __R: 'static, __S: 'static,);
    let scope_names = quote!(__M, __R, __S,);
    let (decl, names) = with_params(&input.generics, &scope, &scope_names);
    let (_, own) = with_params(&input.generics, &quote!(), &quote!());
    let (_, _, where_clause) = input.generics.split_for_impl();
    let doc = format!("The fields of [`{}`] in a document.", name.unraw());
    let (quiet, outside) = (quiet(), private.outside());
    let types = quote! {
        #[doc = #doc]
        #quiet
        #vis struct #ident #decl #where_clause {
            whole: #outside::Field<__M, #name #own, __R, __S>,
        }

        #[automatically_derived]
        #quiet
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
            type Value = #name #own;
            type Role = __R;
            type Shape = __S;
            fn path(&self) -> #private::Path {
                #private::Place::path(&self.whole)
            }
        }

        #[automatically_derived]
        impl #decl #private::Deref for #ident #names #where_clause {
            type Target = #private::Field<__M, #name #own, __R, __S>;
            fn deref(&self) -> &Self::Target {
                &self.whole
            }
        }
    };
    Code { types, rest }
}

fn implementation(
    model: &Model<'_>,
    rules: Option<TokenStream>,
    is_drafted: bool,
    private: &Private,
) -> TokenStream {
    let input = model.input;
    let (name, ident) = (&input.ident, fields_ident(input));
    let (_, own) = with_params(&input.generics, &quote!(), &quote!());
    let (_, names) = with_params(&input.generics, &quote!(), &quote!(__M, __R, __S,));
    let (impl_generics, _, where_clause) = input.generics.split_for_impl();
    let closed = model.closed(private);
    let validate = model.validation(private).map(|checks| {
        quote! {
            fn validate(&self, place: &#private::Checked<'_>) -> #private::Result<()> {
                #checks
            }
        }
    });
    let rewrites = model
        .rewrites(private)
        .map(|is_so| quote!(const REWRITES: bool = #is_so;));
    let rounds = model
        .rounds(private)
        .map(|is_so| quote!(const ROUNDS: bool = #is_so;));
    let links_inside = model
        .links_inside(private)
        .map(|links| quote!(const LINKS: #private::LinksInside = #links;));
    let look_for_links = around(&model.look_for_links(false, private), |look| {
        quote! {
            fn links(found: &mut #private::LinksWalk) {
                #look
            }
        }
    });
    let variants = around(&model.look_for_variants(private), |look| {
        quote! {
            fn variants(&self, found: &mut #private::Variants) {
                #look
            }
        }
    });
    let copies = model
        .copies(private)
        .map(|copies| quote!(const COPIES: &'static #private::Copies = #copies;));
    let new = model.new_type(is_drafted);
    let names_stored = model.fields.iter().map(|field| &field.stored);
    let whole = whole(input, private);
    let pairs = model.fields.iter().map(|field| {
        let (rust, stored) = (field.ident.unraw().to_string(), &field.stored);
        quote!((#rust, #stored))
    });
    let (_, tree) = with_params(
        &input.generics,
        &quote!(),
        &quote!(#name #own, #private::role::Own, #private::shape::One,),
    );
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Stored for #name #own #where_clause {
            type Kind = #private::kind::Struct;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #ident #names;
            type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
            type New = #new;
            #copies
            #rewrites
            #rounds
            #links_inside
            #rules
            #look_for_links
            #validate
            #variants
            const NAMES: &'static [&'static str] = &[#(#names_stored),*];
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Embedded for #name #own #where_clause {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Projected for #name #own #where_clause {
            type Tree = #ident #tree;
            const NAMES: &'static [(&'static str, &'static str)] = &[#(#pairs),*];
        }

        #whole
        #closed
    }
}

/// What is stored is a projection of itself.
pub(super) fn whole(input: &DeriveInput, private: &Private) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Projection for #name #own #where_clause {
            type Of = Self;
            const READS: #private::Reads = #private::Reads::Whole;
        }
    }
}

/// An enum, or a newtype with `inner`: one value, compared and set as a whole.
pub(super) fn value(
    ctxt: &mut Ctxt,
    input: &DeriveInput,
    inner: Option<&syn::Type>,
    private: &Private,
) -> TokenStream {
    SerdeContainer::parse(ctxt, &input.attrs);
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    let (closed_decl, _) = with_params(
        &input.generics,
        &quote!(__Schema: #private::Schema,),
        &quote!(),
    );
    let newtype = inner.map(|inner| newtype(input, inner, private));
    let inside = inner.map(|inner| {
        let links = links_of_newtype(inner, private);
        quote! {
            const LINKS: #private::LinksInside = #links.out_of_reach();
            fn variants(&self, found: &mut #private::Variants) {
                use #private::Opaque as _;
                #private::Inside(&self.0).variants(found);
            }
        }
    });
    // A save that compared it field by field would mix its variants.
    let variants = matches!(input.data, Data::Enum(_)).then(|| {
        quote! {
            fn variants(&self, found: &mut #private::Variants) {
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
    // What serde stores in another form has no fields that are kept.
    if let Data::Struct(data) = &input.data {
        for field in &data.fields {
            Link::refuse(
                ctxt,
                &field.attrs,
                "what has no fields of its own in a document",
            );
        }
    }
    let whole = whole(input, private);
    quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Stored for #name #own #where_clause {
            type Kind = #private::kind::Value;
            type Fields<__M: 'static, __R: 'static, __S: 'static> = #private::Field<__M, Self, __R, __S>;
            type ShapeWithDefault<__S: 'static> = #private::shape::Defaulted<__S>;
            type New = Self;
            #variants
            #inside
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Embedded for #name #own #where_clause {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #closed_decl #private::Closed<__Schema> for #name #own #where_clause {}

        #whole
        #newtype
        #checks
    }
}

const NO_FIELDS: &str = "a newtype is one value, and the references with rules inside of it are not found: give it named fields, or leave \
     `exists` and `on_delete` out of the struct";

/// What there is of references with rules in a newtype, whatever it holds.
fn links_of_newtype(inner: &syn::Type, private: &Private) -> TokenStream {
    quote!({
        use #private::Opaque as _;
        #private::Inside::<'static, #inner>::LINKS
    })
}

/// A newtype has an order if what is inside has one, and can be an id.
fn newtype(input: &DeriveInput, inner: &syn::Type, private: &Private) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, own, where_clause) = input.generics.split_for_impl();
    let (key_decl, _) = with_params(
        &input.generics,
        &quote!(__T: #private::Document<Id = #name #own>,),
        &quote!(),
    );
    let bounds = where_bounds(&input.generics);
    quote! {
        // A bound on all lifetimes is asked for only where the implementation is used.
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #impl_generics #private::Ordered for #name #own where #bounds for<'__a> #inner: #private::Ordered {}

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #key_decl #private::IntoKey<__T> for #name #own #where_clause {
            type Knows = #private::IdAlone;
            fn into_key(self) -> #private::Key<__T> {
                #private::Key::of_id(self)
            }
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #key_decl #private::IntoKey<__T> for &#name #own
        where
            #bounds
            for<'__a> #name #own: ::core::clone::Clone,
        {
            type Knows = #private::IdAlone;
            fn into_key(self) -> #private::Key<__T> {
                #private::Key::of_id(::core::clone::Clone::clone(self))
            }
        }
    }
}
