//! Programs that must compile and run, with unusual but valid code.
//!
//! `strict/lib.rs` covers the properties that only a library shows: every public item is documented, and pedantic lints report no
//! warning.

#![allow(unreachable_pub, reason = "a program has nothing that others reach")]
#![allow(
    clippy::allow_attributes_without_reason,
    clippy::non_minimal_cfg,
    reason = "as others write"
)]

/// The return type of a program.
trait ProgramResult {
    fn assert_success(self);
}

impl ProgramResult for () {
    fn assert_success(self) {}
}

impl ProgramResult for odm::Result<()> {
    fn assert_success(self) {
        self.expect("it ends well");
    }
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(mod $name;)*

        $(#[test]
        fn $name() {
            ProgramResult::assert_success($name::main());
        })*

        /// An unlisted file would not be compiled.
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
    application_methods
    borrowed_values
    constant_parameters
    enums_of_every_kind
    foreign_attributes
    futures_that_move
    generic_document
    generic_embedded
    generic_functions
    generic_where_clause
    ids_of_every_type
    links_of_every_shape
    macros_that_make_models
    models_in_a_function
    models_of_another_crate
    modules_and_private_fields
    names_of_operators
    names_of_serde
    names_of_the_standard_library
    raw_identifiers
    renamed_crate
    self_references_and_cycles
    strict_lints
    two_schemas
    values_of_every_spelling
    type_aliases
    types_by_their_paths
    unique_optional_values
    without_the_prelude
}
