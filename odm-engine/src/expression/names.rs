//! Variables that are visible while an expression is parsed.

use bson::RawBsonRef;

use super::Environment;
use super::constants::ConstantFolding;
use crate::collation::ValueOrder;
use crate::{Error, Result};

/// The visible variables: system variables, variables of the command, and variables of enclosing
/// operators.
#[derive(Debug, Clone)]
pub(crate) struct VisibleVariables<'n> {
    variables: Vec<&'n str>,
    outer: Option<&'n VisibleVariables<'n>>,
    /// Whether the expression is evaluated without a document.
    without_document: bool,
    constants: &'n ConstantFolding,
    order: &'n ValueOrder,
}

/// The system variables, which are always visible. `CURRENT` can be rebound.
const SYSTEM_VARIABLES: &[&str] = &["CURRENT", "NOW", "REMOVE", "ROOT"];

/// Variables of MongoDB that the engine does not support.
const UNSUPPORTED_VARIABLES: &[&str] = &["CLUSTER_TIME", "JS_SCOPE", "SEARCH_META", "USER_ROLES"];

impl<'n> VisibleVariables<'n> {
    /// Adds variables to the visible variables.
    pub(crate) fn with_variables<'i>(
        &'i self,
        names: impl IntoIterator<Item = &'i str>,
    ) -> VisibleVariables<'i> {
        VisibleVariables {
            variables: names.into_iter().collect(),
            outer: Some(self),
            ..*self
        }
    }

    /// Returns the variables of a command and the system variables.
    pub(crate) fn of_command(environment: &'n Environment) -> VisibleVariables<'n> {
        VisibleVariables {
            variables: environment.variable_names().collect(),
            outer: None,
            without_document: false,
            constants: environment.constant_folding(),
            order: environment.order(),
        }
    }

    /// Returns the variables of a command that is evaluated without a document.
    pub(crate) fn without_document(environment: &'n Environment) -> VisibleVariables<'n> {
        VisibleVariables {
            without_document: true,
            ..VisibleVariables::of_command(environment)
        }
    }

    /// # Errors
    /// No document is available, and no enclosing operator binds `CURRENT`.
    pub(super) fn check_document(&self) -> Result<()> {
        if self.is_bound("CURRENT") || !self.without_document {
            return Ok(());
        }
        let message = "the variables of a command cannot read fields: there is no document yet";
        Err(Error::with_server_code(4890500, message))
    }

    /// Returns the folding state of the command.
    pub(super) fn constant_folding(&self) -> &'n ConstantFolding {
        self.constants
    }

    /// Returns the order of values in comparisons.
    pub(super) fn order(&self) -> &'n ValueOrder {
        self.order
    }

    /// Returns whether constant parts are folded.
    pub(super) fn folds_constants(&self) -> bool {
        self.constants.are_folded()
    }

    /// Returns whether an enclosing operator or the command binds the variable.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.variables.contains(&name) || self.outer.is_some_and(|outer| outer.is_bound(name))
    }

    /// # Errors
    /// No such variable is visible.
    pub(super) fn check_visible(&self, name: &str) -> Result<()> {
        if self.is_bound(name) || SYSTEM_VARIABLES.contains(&name) {
            return Ok(());
        }
        if UNSUPPORTED_VARIABLES.contains(&name) {
            return Err(Error::not_supported(format!(
                "the variable $${name} is not supported"
            )));
        }
        Err(Error::with_server_code(
            17276,
            format!("use of an undefined variable: {name}"),
        ))
    }
}

/// Checks that an operator may bind a variable of this name. A name begins with a lower-case letter
/// or a non-ASCII character; `CURRENT` is allowed too.
///
/// # Errors
/// The name is invalid (code 9).
pub(crate) fn check_bindable(name: &str) -> Result<()> {
    let rejection = |reason: &str| {
        let message = format!("'{name}' cannot be the name of a variable: it {reason}");
        Err(Error::with_server_code(9, message))
    };
    let Some(first) = name.chars().next() else {
        return rejection("is empty");
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return rejection("must start with a lower-case letter");
    }
    check_characters(name)
}

/// Returns the name of an array operator's element variable: the argument `as`, or `this`.
///
/// # Errors
/// The argument is not a string, or not a valid variable name (code 9).
pub(super) fn element_variable(argument: Option<RawBsonRef<'_>>) -> Result<&str> {
    let name = match argument {
        None => "this",
        Some(RawBsonRef::String(name)) => name,
        Some(_) => return Err(Error::with_server_code(9, "'as' must be a string")),
    };
    check_bindable(name)?;
    Ok(name)
}

/// Checks that a variable may have this name.
///
/// # Errors
/// The name is invalid (code 9).
pub(super) fn check_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::with_server_code(
            9,
            "the name of a variable cannot be empty",
        ));
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        let message =
            format!("'{name}' cannot be the name of a variable: it must start with a letter");
        return Err(Error::with_server_code(9, message));
    }
    check_characters(name)
}

fn check_characters(name: &str) -> Result<()> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    match name.chars().find(|c| !is_valid(*c)) {
        None => Ok(()),
        Some(c) => {
            let message = format!("'{name}' cannot be the name of a variable: it contains '{c}'");
            Err(Error::with_server_code(9, message))
        }
    }
}
