//! The variables that an expression may use, while it is parsed.

use bson::RawBsonRef;

use super::Environment;
use super::constants::Constants;
use crate::{Error, Result};

/// The variables in sight: those of the system, those of the command, and what encloses them.
#[derive(Debug, Clone)]
pub(crate) struct Names<'n> {
    own: Vec<&'n str>,
    outer: Option<&'n Names<'n>>,
    /// Whether there is no document to see.
    without_document: bool,
    constants: &'n Constants,
}

/// The variables that always are there. `CURRENT` can be given another value.
const SYSTEM: &[&str] = &["CURRENT", "NOW", "REMOVE", "ROOT"];

/// Variables of MongoDB that mean nothing here.
const NOT_SUPPORTED: &[&str] = &["CLUSTER_TIME", "JS_SCOPE", "SEARCH_META", "USER_ROLES"];

impl<'n> Names<'n> {
    /// These variables and all that were in sight before.
    pub(crate) fn with<'i>(&'i self, names: impl IntoIterator<Item = &'i str>) -> Names<'i> {
        Names {
            own: names.into_iter().collect(),
            outer: Some(self),
            ..*self
        }
    }

    /// The variables of a command besides those of the system.
    pub(crate) fn of(environment: &'n Environment) -> Names<'n> {
        Names {
            own: environment.names().collect(),
            outer: None,
            without_document: false,
            constants: environment.constants(),
        }
    }

    /// The variables of a command, where there is no document yet.
    pub(crate) fn without_document(environment: &'n Environment) -> Names<'n> {
        Names {
            without_document: true,
            ..Names::of(environment)
        }
    }

    /// # Errors
    /// There is no document to see, and neither has an operator around made one of a variable.
    pub(super) fn check_document(&self) -> Result<()> {
        if self.is_bound("CURRENT") || !self.without_document {
            return Ok(());
        }
        let message = "the variables of a command are computed before there is a document to read";
        Err(Error::server(4890500, message))
    }

    /// What is noted of constant parts.
    pub(super) fn constants(&self) -> &'n Constants {
        self.constants
    }

    /// Whether what is constant is computed beforehand.
    pub(super) fn folds(&self) -> bool {
        self.constants.are_folded()
    }

    /// Whether an operator around has given the variable a value.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.own.contains(&name) || self.outer.is_some_and(|outer| outer.is_bound(name))
    }

    /// # Errors
    /// No such variable is in sight.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        if self.is_bound(name) || SYSTEM.contains(&name) {
            return Ok(());
        }
        if NOT_SUPPORTED.contains(&name) {
            return Err(Error::not_supported(format!(
                "the variable $${name} is not supported"
            )));
        }
        Err(Error::server(
            17276,
            format!("use of an undefined variable: {name}"),
        ))
    }
}

/// Refuses what is no name for a variable that an operator binds: such names begin with a lower-case
/// letter or a character beyond ASCII. `CURRENT` may be bound too.
///
/// # Errors
/// Code 9.
pub(crate) fn check_bindable(name: &str) -> Result<()> {
    let refuse = |what: &str| {
        let message = format!("'{name}' cannot be the name of a variable: it {what}");
        Err(Error::server(9, message))
    };
    let Some(first) = name.chars().next() else {
        return refuse("is empty");
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return refuse("must start with a lower-case letter");
    }
    check_characters(name)
}

/// The name that an operator on arrays gives to each element: that of its argument `as`, or `this`.
///
/// # Errors
/// It is no string, or no name for a variable (code 9).
pub(super) fn bindable(argument: Option<RawBsonRef<'_>>) -> Result<&str> {
    let name = match argument {
        None => "this",
        Some(RawBsonRef::String(name)) => name,
        Some(_) => return Err(Error::server(9, "'as' is not a string")),
    };
    check_bindable(name)?;
    Ok(name)
}

/// Refuses what no variable can be called.
///
/// # Errors
/// Code 9.
pub(super) fn check_readable(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::server(9, "the name of a variable is empty"));
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        let message =
            format!("'{name}' cannot be the name of a variable: it must start with a letter");
        return Err(Error::server(9, message));
    }
    check_characters(name)
}

fn check_characters(name: &str) -> Result<()> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    match name.chars().find(|c| !is_fit(*c)) {
        None => Ok(()),
        Some(c) => {
            let message = format!("'{name}' cannot be the name of a variable: it contains '{c}'");
            Err(Error::server(9, message))
        }
    }
}
