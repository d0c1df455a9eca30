//! What must compile, though it may look like too much to ask: each file is a program, which runs too. What only a library can show, that
//! everything public is documented and that pedantic lints find nothing, is in `strict/lib.rs`.

#![allow(unreachable_pub, reason = "a program has nothing that others reach")]
#![allow(
    clippy::allow_attributes_without_reason,
    clippy::non_minimal_cfg,
    reason = "as others write"
)]

/// What a program ends with.
trait Ends {
    fn ends(self);
}

impl Ends for () {
    fn ends(self) {}
}

impl Ends for odm::Result<()> {
    fn ends(self) {
        self.expect("it ends well");
    }
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(mod $name;)*

        $(#[test]
        fn $name() {
            Ends::ends($name::main());
        })*

        /// A file that nobody names would not be compiled.
        #[test]
        fn every_program_is_listed() {
            let listed = [$(stringify!($name)),*];
            let files = std::fs::read_dir("tests/compiles").expect("the programs");
            let names = files.map(|file| {
                let name = file.expect("a program").file_name();
                name.to_string_lossy().trim_end_matches(".rs").to_owned()
            });
            let missing: Vec<_> = names
                .filter(|name| name != "main" && !listed.contains(&name.as_str()))
                .collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    };
}

programs! {
    a_database_for_all
    attributes_of_others
    borrowed_values
    constant_parameters
    enums_of_every_kind
    futures_that_move
    generic_document
    generic_embedded
    generic_functions
    generic_where_clause
    ids_of_every_type
    links_of_every_shape
    lints_of_a_careful_crate
    macros_that_make_models
    methods_of_ones_own
    models_in_a_function
    models_of_another_crate
    modules_and_private_fields
    names_of_operators
    names_of_serde
    names_of_the_standard_library
    raw_identifiers
    renamed_crate
    trees_and_circles
    two_schemas
    type_aliases
    types_by_their_paths
    unique_among_some
    without_the_prelude
}
