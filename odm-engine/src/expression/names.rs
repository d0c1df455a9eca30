//! The variables that an expression may use, while it is parsed.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use bson::RawBsonRef;

use crate::{Error, Result};

/// The variables in sight: those of the system, those of the command, and what encloses them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names<'n> {
    own: Vec<Cow<'n, str>>,
    outer: Option<&'n Names<'n>>,
    /// Whether there is no document to see. Only that of the outermost names is used.
    without_document: bool,
    /// Only that of the outermost names is used.
    constants: Constants,
}

/// What constant parts of an expression fail with.
///
/// MongoDB computes them after all has been parsed, so what cannot be parsed is reported first.
#[derive(Debug, Clone, Default)]
struct Constants {
    depth: Cell<usize>,
    failure: RefCell<Option<Error>>,
}

/// The variables that always are there. `CURRENT` can be given another value.
const SYSTEM: &[&str] = &["CURRENT", "NOW", "REMOVE", "ROOT"];

/// Variables of MongoDB that mean nothing here.
const NOT_SUPPORTED: &[&str] = &["CLUSTER_TIME", "JS_SCOPE", "SEARCH_META", "USER_ROLES"];

impl<'n> Names<'n> {
    /// These variables and all that were in sight before.
    pub(crate) fn with<'i>(&'i self, names: impl IntoIterator<Item = &'i str>) -> Names<'i> {
        Names {
            own: names.into_iter().map(Cow::Borrowed).collect(),
            outer: Some(self),
            without_document: false,
            constants: Constants::default(),
        }
    }

    /// These variables of a command besides those of the system.
    pub(crate) fn of<'i>(names: impl IntoIterator<Item = &'i str>) -> Names<'static> {
        Names {
            own: names
                .into_iter()
                .map(|name| Cow::Owned(name.to_owned()))
                .collect(),
            outer: None,
            without_document: false,
            constants: Constants::default(),
        }
    }

    /// These variables of a command, where there is no document yet.
    pub(crate) fn without_document<'i>(names: impl IntoIterator<Item = &'i str>) -> Names<'static> {
        Names {
            without_document: true,
            ..Names::of(names)
        }
    }

    /// # Errors
    /// There is no document to see, and neither has an operator around made one of a variable.
    pub(super) fn check_document(&self) -> Result<()> {
        if self.is_bound("CURRENT") || !self.outermost().without_document {
            return Ok(());
        }
        let message = "the variables of a command are computed before there is a document to read";
        Err(Error::server(4890500, message))
    }

    /// Parses several things, such as the stages of a pipeline: that a constant part of one of them
    /// fails is reported once all of them have been parsed.
    ///
    /// # Errors
    /// What `parse` fails with; what the first constant part fails with.
    pub(crate) fn parse_all<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        let constants = self.constants();
        let depth = constants.depth.get();
        constants.depth.set(depth + 1);
        let parsed = parse();
        constants.depth.set(depth);
        if depth > 0 {
            return parsed;
        }
        let failure = constants.failure.take();
        match failure {
            Some(failure) => parsed.and(Err(failure)),
            None => parsed,
        }
    }

    /// Parses what may turn out not to be needed: what constant parts fail with is handed back.
    pub(super) fn parse_apart<T>(
        &self,
        parse: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Option<Error>)> {
        let constants = self.constants();
        let before = constants.failure.take();
        let parsed = self.parse_all(|| {
            let parsed = parse()?;
            Ok((parsed, constants.failure.take()))
        });
        constants.failure.replace(before);
        parsed
    }

    /// A constant part has failed. The first one counts.
    pub(super) fn note(&self, failure: &Error) {
        let mut first = self.constants().failure.borrow_mut();
        first.get_or_insert_with(|| failure.clone());
    }

    fn constants(&self) -> &Constants {
        &self.outermost().constants
    }

    fn outermost(&self) -> &Names<'n> {
        let mut names = self;
        while let Some(outer) = names.outer {
            names = outer;
        }
        names
    }

    /// Whether an operator around has given the variable a value.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.own.iter().any(|own| own == name)
            || self.outer.is_some_and(|outer| outer.is_bound(name))
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
