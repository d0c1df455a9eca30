//! Databases and collections of clients, and their collections in the file.
//!
//! A file of the engine has one list of collections. The collections of the *main database* have the same names in the file. A
//! collection of another database has the name `@database/collection` in the file.

use std::fmt;

use crate::error::{CommandError, Result, code};

/// The maximum length of the name of a database in bytes, as on MongoDB.
const MAX_DATABASE_NAME_BYTES: usize = 63;

/// The maximum length of `database.collection` in bytes, as on MongoDB.
const MAX_NAMESPACE_BYTES: usize = 255;

/// The map from the names of clients to the names in the file.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    main_database: String,
}

/// A collection of a database, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) database: String,
    pub(crate) collection: String,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

impl Namespaces {
    pub(crate) fn new(main_database: &str) -> Result<Namespaces> {
        check_database(main_database)?;
        Ok(Namespaces {
            main_database: main_database.to_owned(),
        })
    }

    pub(crate) fn main_database(&self) -> &str {
        &self.main_database
    }

    /// Returns the name of a collection in the file.
    ///
    /// # Errors
    /// An invalid name.
    pub(crate) fn engine_name(&self, database: &str, collection: &str) -> Result<String> {
        check_database(database)?;
        let invalid = |reason: &str| {
            let message = format!("Invalid namespace specified '{database}.{collection}'{reason}");
            Err(CommandError::new(code::INVALID_NAMESPACE, message))
        };
        let wrong = collection.is_empty()
            || collection.starts_with('.')
            || collection.ends_with('.')
            || collection.contains(['$', '\0']);
        if wrong {
            return invalid("");
        }
        if database.len() + 1 + collection.len() > MAX_NAMESPACE_BYTES {
            return invalid(": the name is too long (max 255 bytes)");
        }
        if database != self.main_database {
            return Ok(format!("@{database}/{collection}"));
        }
        if self.split_foreign(collection).is_some() {
            return invalid(": the name is reserved for a collection of another database");
        }
        Ok(collection.to_owned())
    }

    /// Returns the namespace of a collection of the file.
    pub(crate) fn namespace_of(&self, name: &str) -> Namespace {
        let (database, collection) = self
            .split_foreign(name)
            .unwrap_or((&self.main_database, name));
        Namespace {
            database: database.to_owned(),
            collection: collection.to_owned(),
        }
    }

    /// Splits the name of a collection of another database.
    fn split_foreign<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let (database, collection) = name.strip_prefix('@')?.split_once('/')?;
        let is_foreign = database != self.main_database && check_database(database).is_ok();
        (is_foreign && !collection.is_empty()).then_some((database, collection))
    }
}

/// Checks the name of a database.
pub(crate) fn check_database(name: &str) -> Result<()> {
    let invalid = name.is_empty()
        || name.len() > MAX_DATABASE_NAME_BYTES
        || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']);
    if invalid {
        let message = format!("Invalid database name: '{name}'");
        return Err(CommandError::new(code::INVALID_NAMESPACE, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_collection_of_the_file_has_one_namespace() {
        let namespaces = Namespaces::new("shop").unwrap();
        for (database, collection, name) in [
            ("shop", "orders", "orders"),
            ("test", "orders", "@test/orders"),
            ("test", "a/b@c", "@test/a/b@c"),
            ("shop", "@shop/orders", "@shop/orders"),
            ("shop", "@not a database/orders", "@not a database/orders"),
            ("shop", "@test", "@test"),
        ] {
            assert_eq!(namespaces.engine_name(database, collection).unwrap(), name);
            let namespace = namespaces.namespace_of(name);
            assert_eq!(namespace.to_string(), format!("{database}.{collection}"));
        }
    }

    #[test]
    fn ambiguous_and_invalid_names_are_refused() {
        let namespaces = Namespaces::new("shop").unwrap();
        let long = "c".repeat(255);
        for (database, collection) in [
            ("shop", "@test/orders"),
            ("shop", ""),
            ("shop", "$cmd"),
            ("shop", ".a"),
            ("", "a"),
            ("a.b", "c"),
            ("a/b", "c"),
            ("a b", "c"),
            ("shop", &long),
        ] {
            let error = namespaces.engine_name(database, collection).unwrap_err();
            assert_eq!(
                error.code(),
                code::INVALID_NAMESPACE,
                "{database} {collection}"
            );
        }
        assert!(Namespaces::new("a.b").is_err());
    }
}
