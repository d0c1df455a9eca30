//! The named arguments of an operator: `{ input: …, as: …, in: … }`.

use bson::RawBsonRef;

use super::Call;
use crate::expression::Expression;
use crate::{Error, Result, value};

/// A document of arguments, all of which the operator knows.
#[derive(Debug)]
pub(in crate::expression) struct Arguments<'c> {
    call: &'c Call<'c>,
    /// The known names, with what was given for them.
    given: Vec<(&'static str, Option<RawBsonRef<'c>>)>,
}

impl Call<'_> {
    /// The operand as a document of the arguments in `known`.
    ///
    /// # Errors
    /// It is not a document, or has another argument: the operator's numbers for that are
    /// `no_document` and `unknown`.
    pub(in crate::expression) fn arguments(
        &self,
        known: &[&'static str],
        no_document: i32,
        unknown: i32,
    ) -> Result<Arguments<'_>> {
        let mut given: Vec<_> = known.iter().map(|name| (*name, None)).collect();
        for (name, argument) in value::fields(self.document(no_document)?) {
            let Some((_, place)) = given.iter_mut().find(|(known, _)| *known == name) else {
                let (operator, known) = (self.name, known.join("', '"));
                let message = format!("{operator} has no argument '{name}', but '{known}'");
                return Err(Error::server(unknown, message));
            };
            *place = Some(argument);
        }
        Ok(Arguments { call: self, given })
    }
}

impl<'c> Arguments<'c> {
    /// What was given for an argument, as it stands.
    pub(in crate::expression) fn get(&self, name: &str) -> Option<RawBsonRef<'c>> {
        let mut given = self.given.iter();
        given.find(|(known, _)| *known == name)?.1
    }

    /// What was given for an argument that has to be there, as it stands.
    ///
    /// # Errors
    /// It is missing; `code` is the operator's number for that.
    pub(in crate::expression) fn need(&self, name: &str, code: i32) -> Result<RawBsonRef<'c>> {
        self.get(name).ok_or_else(|| {
            let operator = self.call.name;
            Error::server(code, format!("{operator} needs the argument '{name}'"))
        })
    }

    /// An argument that has to be there.
    ///
    /// # Errors
    /// It is missing (`code`), or no expression.
    pub(in crate::expression) fn required(&self, name: &str, code: i32) -> Result<Expression> {
        self.call.parse(self.need(name, code)?)
    }

    /// An argument that may be left out.
    ///
    /// # Errors
    /// It is no expression.
    pub(in crate::expression) fn optional(&self, name: &str) -> Result<Option<Expression>> {
        self.get(name)
            .map(|argument| self.call.parse(argument))
            .transpose()
    }

    /// An argument that may be left out, which means `default`.
    ///
    /// # Errors
    /// It is no expression.
    pub(in crate::expression) fn optional_or(
        &self,
        name: &str,
        default: RawBsonRef<'_>,
    ) -> Result<Expression> {
        Ok(self
            .optional(name)?
            .unwrap_or_else(|| Expression::Constant(Some(default.into()))))
    }
}
